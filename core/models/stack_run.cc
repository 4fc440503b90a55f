#include "core/models/stack_run.h"

#include <algorithm>
#include <memory>

#include "core/layers/rows_per_slice.h"
#include "core/runtime/round_up.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/convert_rows.h"

namespace attention {
namespace {

constexpr BufferName kNormed{"normed rows"};
constexpr BufferName kParallelNormed{"normed rows of a parallel sublayer"};
constexpr BufferName kRawOutput{"output before its norm"};

/// The weights of one layer and sequence: memory for all heads, from which the chosen heads are
/// copied.
struct WantedWeights {
  std::unique_ptr<float[]> all_heads;
  const std::vector<int64_t>* heads = nullptr;
  float* target = nullptr;
  int64_t elements_of_head = 0;
};

/// A part of the weights of a chosen head.
struct WeightsPart {
  const float* source = nullptr;
  int64_t count = 0;
  float* target = nullptr;
};

KvCache* CacheOf(const StackSequence& sequence, int64_t layer) {
  const ModelSequence* request = sequence.request;
  return request == nullptr || request->caches.empty() ? nullptr : &request->caches[layer];
}

int64_t CachedLen(const StackSequence& sequence, int64_t layer) {
  const KvCache* cache = CacheOf(sequence, layer);
  return cache == nullptr ? 0 : cache->length();
}

class StackRun {
 public:
  StackRun(const Model& model, const ModelParts& state, const StackCall& call, Workspace& workspace)
      : model_(model), state_(state), call_(call), workspace_(workspace) {}

  absl::Status Run(const Stack& stack);

 private:
  MutableMatrixView Reserve(const BufferName& name, Dtype dtype);
  Dtype ComputeOf(const Sublayer& sublayer) const;
  /// Returns the rows that the sublayer reads.
  MatrixView InputOf(const Sublayer& sublayer, const BufferName& name);
  /// Computes target = residual + layer(input).
  absl::Status RunLayer(const Sublayer& sublayer, const MatrixView& input,
                        const std::optional<MatrixView>& residual, const MutableMatrixView& target);
  absl::Status RunAttention(const Sublayer& sublayer, const MatrixView& input,
                            const std::optional<MatrixView>& residual,
                            const MutableMatrixView& target);
  absl::Status RunFeedForward(const FeedForward& layer, const MatrixView& input,
                              const std::optional<MatrixView>& residual,
                              const MutableMatrixView& target);
  LayerSequence SequenceOf(const Sublayer& sublayer, const StackSequence& sequence,
                           const MutableMatrixView& target);
  /// Returns the memory for the weights of a layer and sequence; null when they are not requested.
  float* ReserveWeights(int64_t layer, const StackSequence& sequence);
  void KeepChosenHeads();

  const Model& model_;
  const ModelParts& state_;
  const StackCall& call_;
  Workspace& workspace_;
  RotaryTables rotations_;
  std::vector<WantedWeights> wanted_;  // of the layer that runs
};

MutableMatrixView StackRun::Reserve(const BufferName& name, Dtype dtype) {
  const MutableMatrixView& hidden = call_.hidden_states;
  return {workspace_.Buffer(name, hidden.rows * hidden.cols * SizeOf(dtype)), dtype, hidden.rows,
          hidden.cols, hidden.cols};
}

Dtype StackRun::ComputeOf(const Sublayer& sublayer) const {
  return sublayer.feed_forward != nullptr ? sublayer.feed_forward->compute()
                                          : state_.layers[sublayer.attention].attention->compute();
}

MatrixView StackRun::InputOf(const Sublayer& sublayer, const BufferName& name) {
  const Dtype compute = ComputeOf(sublayer);
  if (sublayer.before.has_value()) {
    const MutableMatrixView normed = Reserve(name, compute);
    sublayer.before->Run(ReadOnly(call_.hidden_states), normed, workspace_.pool());
    return ReadOnly(normed);
  }
  if (compute == Dtype::kF32) {
    return ReadOnly(call_.hidden_states);
  }
  const MutableMatrixView converted = Reserve(name, compute);
  ConvertRows(ReadOnly(call_.hidden_states), converted, workspace_.pool());
  return ReadOnly(converted);
}

float* StackRun::ReserveWeights(int64_t layer, const StackSequence& sequence) {
  const ModelSequence* request = sequence.request;
  if (request == nullptr || request->weights_choice == nullptr) {
    return nullptr;
  }
  const WeightsChoice& choice = *request->weights_choice;
  const auto chosen = std::find(choice.layers.begin(), choice.layers.end(), layer);
  if (chosen == choice.layers.end()) {
    return nullptr;
  }
  float* target = request->weights[chosen - choice.layers.begin()];
  if (choice.heads.empty()) {
    return target;
  }
  const int64_t elements =
      sequence.seq_len *
      model_.NumKeys(layer, CachedLen(sequence, layer) + sequence.seq_len, sequence.memory_len);
  WantedWeights& wanted = wanted_.emplace_back();
  // Not set to zero, which one thread would do: the layer writes every element.
  wanted.all_heads =
      std::make_unique_for_overwrite<float[]>(elements * model_.layer(layer).shape().num_heads);
  wanted.heads = &choice.heads;
  wanted.target = target;
  wanted.elements_of_head = elements;
  return wanted.all_heads.get();
}

void StackRun::KeepChosenHeads() {
  constexpr int64_t kElements = 16384;  // of a task
  std::vector<WeightsPart> parts;
  int64_t elements = 0;
  for (const WantedWeights& wanted : wanted_) {
    float* target = wanted.target;
    for (const int64_t head : *wanted.heads) {
      const float* source = &wanted.all_heads[head * wanted.elements_of_head];
      for (int64_t i = 0; i < wanted.elements_of_head; i += kElements) {
        parts.push_back({source + i, std::min(kElements, wanted.elements_of_head - i), target + i});
      }
      target += wanted.elements_of_head;
      elements += wanted.elements_of_head;
    }
  }
  const int64_t tasks = CeilDiv(elements, kElements);
  const auto first_part = [&](int64_t task) { return task * std::ssize(parts) / tasks; };
  workspace_.pool().ParallelFor(tasks, [&](int64_t task, int /*worker*/) {
    for (int64_t i = first_part(task); i < first_part(task + 1); ++i) {
      std::copy_n(parts[i].source, parts[i].count, parts[i].target);
    }
  });
  wanted_.clear();
}

LayerSequence StackRun::SequenceOf(const Sublayer& sublayer, const StackSequence& sequence,
                                   const MutableMatrixView& target) {
  const int64_t layer = sublayer.attention;
  const int64_t kv_len =
      sublayer.is_cross ? sequence.memory_len : CachedLen(sequence, layer) + sequence.seq_len;
  MutableMatrixView output = target;
  output.data = ElementAt(target.data, target.dtype, sequence.first_row * target.row_stride);
  output.rows = sequence.seq_len;
  const AttentionOptions requested{.causal = state_.layers[layer].causal};
  return {.first_row = sequence.first_row,
          .query_len = sequence.seq_len,
          .first_memory_row = sublayer.is_cross ? sequence.first_memory_row : 0,
          .memory_len = sublayer.is_cross ? sequence.memory_len : 0,
          .output = output,
          .weights = ReserveWeights(layer, sequence),
          .cache = CacheOf(sequence, layer),
          .options = model_.LayerOptions(layer, requested, kv_len)};
}

absl::Status StackRun::RunAttention(const Sublayer& sublayer, const MatrixView& input,
                                    const std::optional<MatrixView>& residual,
                                    const MutableMatrixView& target) {
  std::vector<LayerSequence> sequences;
  sequences.reserve(call_.sequences.size());
  for (const StackSequence& sequence : call_.sequences) {
    sequences.push_back(SequenceOf(sublayer, sequence, target));
  }
  LayerCall call{.hidden_states = input,
                 .sequences = sequences,
                 .residual = residual,
                 .yield = call_.yield,
                 .rotations = &rotations_};
  if (sublayer.is_cross) {
    call.memory = call_.memory;
  }
  RETURN_IF_ERROR(model_.layer(sublayer.attention).Run(call, workspace_));
  KeepChosenHeads();
  return absl::OkStatus();
}

absl::Status StackRun::RunFeedForward(const FeedForward& layer, const MatrixView& input,
                                      const std::optional<MatrixView>& residual,
                                      const MutableMatrixView& target) {
  const int64_t slice = RowsPerSlice(layer.row_flops(), workspace_.pool(), call_.yield);
  for (int64_t row = 0, rows = 0; row < input.rows; row += rows) {
    RETURN_IF_ERROR(CallYield(call_.yield));
    rows = std::min(slice, input.rows - row);
    const auto part_of = [&](const MatrixView& view) { return SliceRows(view, row, rows); };
    layer.Run(part_of(input),
              residual.has_value() ? std::optional(part_of(*residual)) : std::nullopt,
              SliceRows(target, row, rows), workspace_);
  }
  return absl::OkStatus();
}

absl::Status StackRun::RunLayer(const Sublayer& sublayer, const MatrixView& input,
                                const std::optional<MatrixView>& residual,
                                const MutableMatrixView& target) {
  return sublayer.feed_forward == nullptr
             ? RunAttention(sublayer, input, residual, target)
             : RunFeedForward(*sublayer.feed_forward, input, residual, target);
}

absl::Status StackRun::Run(const Stack& stack) {
  const MutableMatrixView& hidden = call_.hidden_states;
  std::optional<MatrixView> parallel_input;
  for (size_t i = 0; i < stack.sublayers.size(); ++i) {
    const Sublayer& sublayer = stack.sublayers[i];
    const MatrixView input = sublayer.is_parallel ? *parallel_input : InputOf(sublayer, kNormed);
    if (i + 1 < stack.sublayers.size() && stack.sublayers[i + 1].is_parallel) {
      parallel_input = InputOf(stack.sublayers[i + 1], kParallelNormed);
    }
    if (sublayer.output.has_value()) {
      const MutableMatrixView raw = Reserve(kRawOutput, Dtype::kF32);
      RETURN_IF_ERROR(RunLayer(sublayer, input, std::nullopt, raw));
      sublayer.output->Run(ReadOnly(raw), hidden, workspace_.pool(), ReadOnly(hidden));
    } else {
      RETURN_IF_ERROR(RunLayer(sublayer, input, ReadOnly(hidden), hidden));
    }
    if (sublayer.after.has_value()) {
      sublayer.after->Run(ReadOnly(hidden), hidden, workspace_.pool());
    }
  }
  if (stack.final_norm.has_value()) {
    stack.final_norm->Run(ReadOnly(hidden), hidden, workspace_.pool());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStack(const Model& model, const ModelParts& state, const Stack& stack,
                      const StackCall& call, Workspace& workspace) {
  return StackRun(model, state, call, workspace).Run(stack);
}

}  // namespace attention
