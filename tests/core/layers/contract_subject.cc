#include "tests/core/layers/contract_subject.h"

#include <cstring>
#include <optional>
#include <utility>

#include "tests/support/matchers.h"

namespace attention {
namespace {

/// Returns the work of kStageRows rows.
double StageFlops(const MultiHeadAttention& layer) {
  const double one_row = layer.Flops(1, kContractLength, 1) - layer.Flops(0, 0, 1);
  const double query = layer.Flops(1, 0, 1) - layer.Flops(0, 0, 1);
  return kStageRows * (one_row - query / 2);
}

/// Returns the rows of all parts, one part after the other.
Tensor StackRows(const std::vector<MatrixView>& parts) {
  int64_t rows = 0;
  for (const MatrixView& part : parts) {
    rows += part.rows;
  }
  Tensor stacked(parts[0].dtype, {rows, parts[0].cols});
  auto* target = static_cast<std::byte*>(stacked.data());
  for (const MatrixView& part : parts) {
    const size_t bytes = part.rows * part.cols * SizeOf(part.dtype);
    if (bytes > 0) {
      std::memcpy(target, part.data, bytes);
    }
    target += bytes;
  }
  return stacked;
}

}  // namespace

ContractAnswer ContractSubject::Compute(const ContractWay& way, KeyValueStorage storage) const {
  ThreadPool pool(way.threads);
  Workspace workspace(pool);
  std::optional<KvCache> cache;
  if (!way.cuts.empty()) {
    cache = *KvCache::Create(*layer().CacheShape(storage));
  }
  ContractAnswer answer;
  for (const int64_t count : cache.has_value() ? way.cuts : std::vector{kind_.length}) {
    const Step step{cache.has_value() ? cache->length() : 0, count,
                    cache.has_value() ? &*cache : nullptr};
    if (way.follows_a_cancelled) {
      RunStep(way, step, workspace, /*is_cancelled=*/true);
      EXPECT_THAT(cache.has_value() ? cache->Truncate(step.first) : absl::OkStatus(), IsOk());
    }
    const ContractAnswer part = RunStep(way, step, workspace, /*is_cancelled=*/false);
    answer.output.insert(answer.output.end(), part.output.begin(), part.output.end());
    answer.weights = part.weights;
    answer.log_sum_exp = part.log_sum_exp;
  }
  return answer;
}

AttentionOptions ContractSubject::OptionsFrom(int64_t first) const {
  AttentionOptions options = problem_.options;
  if (options.query_offset.has_value()) {
    *options.query_offset += first;
  }
  const auto skip = [first](auto& view) {
    view.data = view.data == nullptr ? nullptr : view.Row(0, first);
  };
  skip(options.bias);
  skip(options.mask);
  return options;
}

ContractAnswer ContractSubject::RunStep(const ContractWay& way, const Step& step,
                                        Workspace& workspace, bool is_cancelled) const {
  const int64_t before = way.has_mates ? kMatesBefore : 0;
  const int64_t after = way.has_mates ? kMatesAfter : 0;
  const Tensor input =
      StackRows({SliceRows(View(mates_), 0, before), SliceRows(View(rows_), step.first, step.count),
                 SliceRows(View(mates_), kMatesBefore, after)});
  const int64_t mate_memory = way.has_mates ? kMateMemory : 0;
  const Tensor memory = StackRows({SliceRows(View(mate_memory_), 0, mate_memory), View(memory_)});
  Tensor output(dtype(), input.shape());
  const auto sequence = [&](int64_t first, int64_t rows, const AttentionOptions& options) {
    const int64_t width = kContractShape.d_model;
    return LayerSequence{
        .first_row = first,
        .query_len = rows,
        .output = {ElementAt(output.data(), dtype(), first * width), dtype(), rows, width, width},
        .options = options};
  };
  const bool is_whole = step.cache == nullptr;
  const int64_t scores = is_whole ? kContractShape.num_heads * kind_.length : 0;
  Tensor weights(Dtype::kF32, {scores, kind_.kv_len()});
  Tensor log_sum_exp(Dtype::kF32, {scores});
  LayerSequence subject = sequence(before, step.count, OptionsFrom(step.first));
  subject.cache = step.cache;
  subject.weights = is_whole ? weights.as<float>() : nullptr;
  subject.log_sum_exp = is_whole ? log_sum_exp.as<float>() : nullptr;
  subject.first_memory_row = mate_memory;
  subject.memory_len = kind_.memory_len;
  std::vector<LayerSequence> sequences = {subject};
  if (way.has_mates) {
    sequences.insert(sequences.begin(), sequence(0, before, {.causal = true}));
    sequences.front().memory_len = kind_.memory_len == 0 ? 0 : kMateMemory;
    sequences.push_back(
        sequence(before + step.count, after, {.causal = true, .similarity = Similarity::kLinear}));
    sequences.back().first_memory_row = mate_memory + kind_.memory_len;
  }
  LayerCall call{.hidden_states = View(input), .sequences = sequences};
  if (kind_.memory_len > 0) {
    call.memory = View(memory);
  }
  Run(way, call, workspace, is_cancelled);
  const auto* first = static_cast<const uint8_t*>(subject.output.data);
  return {{first, first + step.count * kContractShape.d_model * SizeOf(dtype())},
          Bytes(weights),
          Bytes(log_sum_exp)};
}

void ContractSubject::Run(const ContractWay& way, LayerCall& call, Workspace& workspace,
                          bool is_cancelled) const {
  int asked = 0;
  const auto yield = [&] { return ++asked < 5 || !is_cancelled; };
  if (way.block_rows > 0) {
    call.on_rows = [&](const RowRange&) { return yield(); };
    call.block_rows = way.block_rows;
  }
  if (way.slice_rows > 0) {
    call.slice_flops = StageFlops(layer()) * way.slice_rows / kStageRows / way.threads;
    call.yield = [&] {
      if (way.is_interrupted && asked % 3 == 0) {
        RunAnother(workspace.pool());
      }
      return yield();
    };
  }
  EXPECT_THAT(
      layer().Run(call, workspace),
      StatusIs(is_cancelled ? absl::StatusCode::kCancelled : absl::StatusCode::kOk, ::testing::_));
  if (way.slice_rows == 1 && call.hidden_states.rows > kStageRows) {
    EXPECT_GT(asked, 3) << "is it sliced?";
  }
}

void ContractSubject::RunAnother(ThreadPool& pool) const {
  Workspace workspace(pool);
  Tensor output(dtype(), mates_.shape());
  const LayerSequence all{.query_len = mates_.shape()[0],
                          .memory_len = mate_memory_.shape()[0],
                          .output = {output.data(), dtype(), output.shape()[0],
                                     kContractShape.d_model, kContractShape.d_model},
                          .options = {.causal = true, .similarity = Similarity::kLinear}};
  LayerCall call{.hidden_states = View(mates_), .sequences = {&all, 1}};
  if (kind_.memory_len > 0) {
    call.memory = View(mate_memory_);
  }
  EXPECT_THAT(layer().Run(call, workspace), IsOk());
}

}  // namespace attention
