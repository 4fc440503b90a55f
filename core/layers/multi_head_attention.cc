#include "core/layers/multi_head_attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/resolve.h"
#include "core/kernels/flash_attention.h"
#include "core/kernels/linear.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

enum ProjectionPart { kQuery, kKey, kValue, kNumParts };

absl::Status ValidateShape(const MultiHeadAttentionShape& s, Dtype dtype) {
  const std::pair<const char*, int64_t> extents[] = {
      {"d_model", s.d_model},     {"d_memory", s.d_memory},
      {"num_heads", s.num_heads}, {"num_kv_heads", s.num_kv_heads},
      {"head_dim", s.head_dim},   {"value_head_dim", s.value_head_dim}};
  for (const auto& [name, value] : extents) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a positive number, found ", value));
    }
  }
  if (s.num_heads % s.num_kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_heads: expected a multiple of num_kv_heads ", s.num_kv_heads, ", found ",
                     s.num_heads));
  }
  for (const auto& [name, width] :
       {std::pair("head_dim", s.head_dim), std::pair("value_head_dim", s.value_head_dim)}) {
    if (width > kMaxHeadDim) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected at most ", kMaxHeadDim, ", found ", width));
    }
  }
  if (dtype == Dtype::kF16) {
    return absl::InvalidArgumentError("dtype: expected FP32 or BF16 weights, found FP16");
  }
  return absl::OkStatus();
}

/// Products of bf16 work on pairs along K: a layer with an odd width computes in f32.
Dtype LayerComputeDtype(const MultiHeadAttentionShape& s, Dtype dtype) {
  const bool even =
      s.d_model % 2 == 0 && s.d_memory % 2 == 0 && s.num_heads * s.value_head_dim % 2 == 0;
  return even ? ComputeDtype(dtype) : Dtype::kF32;
}

MatrixView RowsOf(MatrixView view, int64_t first, int64_t count) {
  view.data = ElementAt(view.data, view.dtype, first * view.row_stride);
  view.rows = count;
  return view;
}

}  // namespace

struct MultiHeadAttention::State {
  State(const MultiHeadAttentionShape& s, const MultiHeadAttentionWeights& w, Dtype d)
      : shape(s), dtype(d), compute(LayerComputeDtype(s, d)) {
    using Parts = std::vector<PackedLinear::Part>;
    Parts query = {{w.query, w.query_bias, s.num_heads * s.head_dim}};
    const Parts key_value = {{w.key, w.key_bias, s.num_kv_heads * s.head_dim},
                             {w.value, w.value_bias, s.num_kv_heads * s.value_head_dim}};
    if (s.d_memory == s.d_model) {
      query.insert(query.end(), key_value.begin(), key_value.end());
    } else {
      memory_projection = std::make_unique<PackedLinear>(s.d_memory, key_value, dtype, compute);
    }
    projection = std::make_unique<PackedLinear>(s.d_model, query, dtype, compute);
    const Parts out = {{w.output, w.output_bias, s.d_model}};
    output = std::make_unique<PackedLinear>(s.num_heads * s.value_head_dim, out, dtype, compute);
  }

  /// The map that makes keys and values, and its part that makes keys; values are the next part.
  const PackedLinear& key_value() const {
    return memory_projection != nullptr ? *memory_projection : *projection;
  }
  int64_t key_part() const { return memory_projection != nullptr ? 0 : 1; }

  MultiHeadAttentionShape shape;
  Dtype dtype;
  Dtype compute;
  std::unique_ptr<PackedLinear> projection;         // query; with equal widths also key and value
  std::unique_ptr<PackedLinear> memory_projection;  // key and value of another width, or null
  std::unique_ptr<PackedLinear> output;
};

namespace {

struct LayerInputs {
  MatrixView hidden_states;
  std::optional<MatrixView> memory;
  std::span<const LayerSequence> sequences;
};

/// One call of a layer.
class LayerRun {
 public:
  LayerRun(const MultiHeadAttention::State& layer, const LayerInputs& inputs, Workspace& workspace);

  absl::Status Run(const RowsCallback& on_rows, int64_t block_rows);

 private:
  using Slot = Workspace::Slot;

  MatrixView ToCompute(MatrixView rows, Slot slot);
  MutableMatrixView Reserve(Slot slot, int64_t rows, int64_t cols);
  std::vector<FlashSequence> FlashSequences() const;
  void ProjectMemory();
  void Project(int64_t first, int64_t end);
  /// Packs the keys that rows [first, end) became.
  void PackKeysOf(int64_t first, int64_t end);
  absl::Status RunInStages(const RowsCallback& on_rows, int64_t block_rows);
  /// End of the hidden rows that must be projected before `stage` can attend.
  int64_t NeededRows(const Stage& stage) const;
  void ProjectOutput(const Stage& stage);

  const MultiHeadAttention::State& layer_;
  const LayerInputs& inputs_;
  Workspace& workspace_;
  MatrixView hidden_states_;  // of the compute type
  MutableMatrixView projected_;
  MutableMatrixView
      key_value_;  // the projected memory; key and value columns of projected_ without one
  MutableMatrixView context_;
  std::optional<FlashAttention> flash_;
};

LayerRun::LayerRun(const MultiHeadAttention::State& layer, const LayerInputs& inputs,
                   Workspace& workspace)
    : layer_(layer), inputs_(inputs), workspace_(workspace) {
  const int64_t rows = inputs.hidden_states.rows;
  hidden_states_ = ToCompute(inputs.hidden_states, Slot::kConvertedInput);
  const PackedLinear& key_value = layer.key_value();
  const int64_t key_column = key_value.ColumnOf(layer.key_part());
  const bool is_self_attention = !inputs.memory.has_value();
  projected_ =
      Reserve(Slot::kProjected, rows,
              is_self_attention ? layer.projection->num_columns() : layer.projection->ColumnOf(1));
  if (is_self_attention) {
    key_value_ = projected_;
    key_value_.data = ElementAt(projected_.data, layer.compute, key_column);
  } else {
    key_value_ =
        Reserve(Slot::kProjectedMemory, inputs.memory->rows, key_value.num_columns() - key_column);
  }
  context_ = Reserve(Slot::kContext, rows, layer.output->in_features());
  flash_.emplace(FlashSequences(), workspace);
}

MutableMatrixView LayerRun::Reserve(Slot slot, int64_t rows, int64_t cols) {
  const size_t bytes = rows * cols * SizeOf(layer_.compute);
  return {workspace_.Buffer(slot, bytes), layer_.compute, rows, cols, cols};
}

MatrixView LayerRun::ToCompute(MatrixView rows, Slot slot) {
  if (rows.dtype == layer_.compute) {
    return rows;
  }
  const MutableMatrixView converted = Reserve(slot, rows.rows, rows.cols);
  for (int64_t r = 0; r < rows.rows; ++r) {
    Convert(rows.dtype, RowsOf(rows, r, 1).data, converted.dtype,
            ElementAt(converted.data, converted.dtype, r * converted.row_stride), rows.cols);
  }
  return {converted.data, converted.dtype, rows.rows, rows.cols, converted.row_stride};
}

std::vector<FlashSequence> LayerRun::FlashSequences() const {
  const MultiHeadAttentionShape& s = layer_.shape;
  const PackedLinear& linear = layer_.key_value();
  const int64_t part = layer_.key_part();
  const int64_t value_column = linear.ColumnOf(part + 1) - linear.ColumnOf(part);
  const auto heads = [](const MutableMatrixView& rows, int64_t column, int64_t num_heads,
                        int64_t width) {
    return MutableHeadsView{ElementAt(rows.data, rows.dtype, column),
                            rows.dtype,
                            rows.rows,
                            num_heads,
                            width,
                            rows.row_stride,
                            width};
  };
  const auto read_only = [](const MutableHeadsView& v) {
    return HeadsView{v.data,     v.dtype,        v.tokens,     v.num_heads,
                     v.head_dim, v.token_stride, v.head_stride};
  };
  const HeadsView query = read_only(heads(projected_, 0, s.num_heads, s.head_dim));
  const HeadsView key = read_only(heads(key_value_, 0, s.num_kv_heads, s.head_dim));
  const HeadsView value =
      read_only(heads(key_value_, value_column, s.num_kv_heads, s.value_head_dim));
  const MutableHeadsView context = heads(context_, 0, s.num_heads, s.value_head_dim);

  std::vector<FlashSequence> result;
  for (const LayerSequence& q : inputs_.sequences) {
    const bool self = !inputs_.memory.has_value();
    const int64_t first_key = self ? q.first_row : q.first_memory_row;
    const int64_t kv_len = self ? q.query_len : q.memory_len;
    result.push_back(Resolve({.query = SliceTokens(query, q.first_row, q.query_len),
                              .key = SliceTokens(key, first_key, kv_len),
                              .value = SliceTokens(value, first_key, kv_len),
                              .output = SliceTokens(context, q.first_row, q.query_len),
                              .weights = q.weights,
                              .top_weights = q.top_weights,
                              .log_sum_exp = q.log_sum_exp,
                              .options = q.options}));
  }
  return result;
}

void LayerRun::ProjectMemory() {
  const RowSegment all{0, key_value_};
  layer_.key_value().Run({.input = ToCompute(*inputs_.memory, Slot::kConvertedMemory),
                          .first_part = layer_.key_part(),
                          .end_part = layer_.key_part() + 2,
                          .outputs = {&all, 1}},
                         workspace_.pool());
}

void LayerRun::Project(int64_t first, int64_t end) {
  MutableMatrixView target = projected_;
  target.data = ElementAt(target.data, target.dtype, first * target.row_stride);
  target.rows = end - first;
  const RowSegment rows{0, target};
  const bool is_self_attention = !inputs_.memory.has_value();
  layer_.projection->Run({.input = RowsOf(hidden_states_, first, end - first),
                          .first_part = kQuery,
                          .end_part = is_self_attention ? kNumParts : kKey,
                          .outputs = {&rows, 1}},
                         workspace_.pool());
}

void LayerRun::PackKeysOf(int64_t first, int64_t end) {
  std::vector<RowRange> pieces;
  for (int64_t i = 0; i < std::ssize(inputs_.sequences); ++i) {
    const LayerSequence& sequence = inputs_.sequences[i];
    const int64_t from = std::max(first, sequence.first_row);
    const int64_t to = std::min(end, sequence.first_row + sequence.query_len);
    if (from < to) {
      pieces.push_back({i, from - sequence.first_row, to - from});
    }
  }
  flash_->PackKeys(pieces);
}

int64_t LayerRun::NeededRows(const Stage& stage) const {
  int64_t needed = 0;
  for (const RowRange& piece : stage) {
    const LayerSequence& sequence = inputs_.sequences[piece.sequence];
    int64_t rows = piece.first_row + piece.rows;
    if (!inputs_.memory.has_value()) {
      // Packing goes on from a block's first key.
      rows = std::max(rows, RoundUp(flash_->KeysNeeded(piece), kKeyBlock));
    }
    needed = std::max(needed, sequence.first_row + std::min(rows, sequence.query_len));
  }
  return needed;
}

void LayerRun::ProjectOutput(const Stage& stage) {
  std::vector<RowSegment> outputs;
  const int64_t first =
      inputs_.sequences[stage.front().sequence].first_row + stage.front().first_row;
  int64_t rows = 0;
  for (const RowRange& piece : stage) {
    MutableMatrixView view = inputs_.sequences[piece.sequence].output;
    view.data = ElementAt(view.data, view.dtype, piece.first_row * view.row_stride);
    view.rows = piece.rows;
    outputs.push_back({rows, view});
    rows += piece.rows;
  }
  const MatrixView context{context_.data, context_.dtype, context_.rows, context_.cols,
                           context_.row_stride};
  layer_.output->Run(
      {.input = RowsOf(context, first, rows), .first_part = 0, .end_part = 1, .outputs = outputs},
      workspace_.pool());
}

absl::Status LayerRun::Run(const RowsCallback& on_rows, int64_t block_rows) {
  if (inputs_.memory.has_value()) {
    ProjectMemory();
  }
  if (on_rows) {
    return RunInStages(on_rows, block_rows);
  }
  Project(0, hidden_states_.rows);
  flash_->PackAndAttend();
  Stage all;
  for (const LayerSequence& sequence : inputs_.sequences) {
    all.push_back({std::ssize(all), 0, sequence.query_len});
  }
  ProjectOutput(all);
  return absl::OkStatus();
}

absl::Status LayerRun::RunInStages(const RowsCallback& on_rows, int64_t block_rows) {
  std::vector<int64_t> lengths;
  std::vector<RowRange> memory_rows;
  for (const LayerSequence& sequence : inputs_.sequences) {
    memory_rows.push_back({std::ssize(memory_rows), 0, sequence.memory_len});
    lengths.push_back(sequence.query_len);
  }
  if (inputs_.memory.has_value()) {
    flash_->PackKeys(memory_rows);
  }
  int64_t projected_rows = 0;
  for (const Stage& stage : CutIntoStages(lengths, BlockRows(block_rows))) {
    if (const int64_t needed = NeededRows(stage); needed > projected_rows) {
      Project(projected_rows, needed);
      if (!inputs_.memory.has_value()) {
        PackKeysOf(projected_rows, needed);
      }
      projected_rows = needed;
    }
    flash_->Attend(stage);
    ProjectOutput(stage);
    if (!Announce(stage, on_rows)) {
      return absl::CancelledError("cancelled between row blocks");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MultiHeadAttention>> MultiHeadAttention::Create(
    const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights, Dtype dtype) {
  RETURN_IF_ERROR(ValidateShape(shape, dtype));
  return std::unique_ptr<MultiHeadAttention>(
      new MultiHeadAttention(std::make_unique<State>(shape, weights, dtype)));
}

MultiHeadAttention::MultiHeadAttention(std::unique_ptr<State> state) : state_(std::move(state)) {}
MultiHeadAttention::~MultiHeadAttention() = default;

const MultiHeadAttentionShape& MultiHeadAttention::shape() const { return state_->shape; }
Dtype MultiHeadAttention::dtype() const { return state_->dtype; }

absl::Status MultiHeadAttention::Run(MatrixView hidden_states, std::optional<MatrixView> memory,
                                     std::span<const LayerSequence> sequences, Workspace& workspace,
                                     const RowsCallback& on_rows, int64_t block_rows) const {
  if (sequences.empty()) {
    return absl::OkStatus();
  }
  const LayerInputs inputs{hidden_states, memory, sequences};
  return LayerRun(*state_, inputs, workspace).Run(on_rows, block_rows);
}

}  // namespace attention
