#include "tests/core/fuzz/fuzz_layer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/runtime/status_macros.h"
#include "tests/core/fuzz/fuzz_budget.h"
#include "tests/core/fuzz/fuzz_mates.h"

namespace attention {
namespace {

/// The rows of the mates before and behind the case's sequence.
struct MateRows {
  explicit MateRows(const FuzzCase& way)
      : before(way.mates > 0 ? 70 : 0), behind(way.mates > 1 ? 9 : 0) {}
  int64_t before, behind;
};

/// The keys in the cache of a mate before each call.
constexpr int64_t kMateKeys = 70;

}  // namespace

absl::Status FuzzLayer::Make() {
  weights_.emplace(way_);
  ASSIGN_OR_RETURN(layer_, weights_->MakeLayer());
  const bool has_cached_mate = way_.mates > 3 && !has_memory() && way_.extra_keys == 0;
  return has_cached_mate ? MakeMateCache() : absl::OkStatus();
}

/// Makes one of 8 bits, which holds keys before those of the mate's rows.
absl::Status FuzzLayer::MakeMateCache() {
  ASSIGN_OR_RETURN(const KvCacheShape cache_shape, layer_->CacheShape(KeyValueStorage::kInt8));
  ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(cache_shape));
  mate_cache_.emplace(std::move(cache));
  const reference::Extents& e = problem_.extents();
  const auto rows = [&](int64_t width) {
    return problem_.NewRows(Dtype::kF32, {kMateKeys, e.num_kv_heads, width}, way_.bad_mates != 0);
  };
  return mate_cache_->Append(rows(e.head_dim), rows(e.value_head_dim));
}

/// Zeros, but for mates that are NaN.
FuzzLayer::Rows FuzzLayer::NewRows(Dtype dtype, int64_t before, int64_t count, int64_t behind,
                                   int64_t width) {
  const int64_t stride = width + way_.padding;
  const int64_t rows = before + count + behind;
  std::byte* data = problem_.NewMemory(rows * stride * static_cast<int64_t>(SizeOf(dtype)));
  const MutableMatrixView view{data, dtype, rows, width, stride};
  for (int64_t row = 0; row < rows; ++row) {
    const bool is_mate = row < before || row >= before + count;
    const std::vector<float> values(
        width, is_mate && way_.bad_mates != 0 ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
    Convert(Dtype::kF32, values.data(), dtype, SliceRows(view, row, 1).data, width);
  }
  return {view, before};
}

void FuzzLayer::CopyHeads(const HeadsView& from, const Rows& rows, int64_t column) {
  for (int64_t row = 0; row < from.tokens; ++row) {
    for (int64_t head = 0; head < from.num_heads; ++head) {
      std::memcpy(
          ElementAt(rows.view.data, rows.view.dtype,
                    (rows.first + row) * rows.view.row_stride + column + head * from.head_dim),
          ElementAt(from.data, from.dtype, row * from.token_stride + head * from.head_stride),
          from.head_dim * SizeOf(from.dtype));
    }
  }
}

FuzzLayer::Rows FuzzLayer::HiddenStates(const Call& call) {
  const reference::Extents& e = problem_.extents();
  const MateRows mates(way_);
  const HeadsView& query = call.sequence.query;
  const Rows rows = NewRows(query.dtype, mates.before, query.tokens, mates.behind, shape().d_model);
  CopyHeads(query, rows, 0);
  if (!has_memory()) {
    const int64_t first_key = e.kv_len - e.query_len + call.row;
    CopyHeads(SliceTokens(problem_.key(), first_key, query.tokens), rows, weights_->key_column);
    CopyHeads(SliceTokens(problem_.value(), first_key, query.tokens), rows, weights_->value_column);
  }
  return rows;
}

FuzzLayer::Rows FuzzLayer::Memory() {
  const MateRows mates(way_);
  const Rows rows = NewRows(problem_.key_dtype(), mates.before, problem_.extents().kv_len,
                            mates.behind, shape().d_memory);
  CopyHeads(problem_.key(), rows, weights_->key_column);
  if (!weights_->has_memory_values()) {
    CopyHeads(problem_.value(), rows, weights_->value_column);
  }
  return rows;
}

FuzzLayer::Rows FuzzLayer::MemoryValues() {
  const MateRows mates(way_);
  const Rows rows = NewRows(problem_.key_dtype(), mates.before, problem_.extents().kv_len,
                            mates.behind, shape().d_memory_value);
  CopyHeads(problem_.value(), rows, weights_->value_column);
  return rows;
}

/// The residual of the call's rows; beyond its columns it is zero.
FuzzLayer::Rows FuzzLayer::Residual(const Call& call) {
  const MateRows mates(way_);
  const int64_t count = call.sequence.query.tokens;
  const Rows rows = NewRows(Dtype::kF32, mates.before, count, mates.behind, shape().d_model);
  CopyHeads(SliceTokens(problem_.residual(), call.row, count), rows, 0);
  return rows;
}

/// The sequences of the call in the order of their rows.
std::vector<LayerSequence> FuzzLayer::Sequences(const Call& call, const Rows& output) {
  const MateRows mates(way_);
  const AttentionSequence& sequence = call.sequence;
  std::vector<LayerSequence> sequences;
  int64_t row = 0;
  int64_t memory_row = 0;
  const auto add = [&](int64_t rows, int64_t memory_rows, const AttentionOptions& options) {
    sequences.push_back({.first_row = row,
                         .query_len = rows,
                         .first_memory_row = has_memory() ? memory_row : 0,
                         .memory_len = has_memory() ? memory_rows : 0,
                         .output = SliceRows(output.view, row, rows),
                         .options = options});
    row += rows;
    memory_row += memory_rows;
  };
  const AttentionOptions mate_options = MateOptions(way_.mate_kind, way_.dim);
  if (mates.before > 0) {
    add(mates.before, mates.before, mate_options);
  }
  add(sequence.query.tokens, problem_.extents().kv_len, sequence.options);
  LayerSequence& own = sequences.back();
  own.weights = sequence.weights;
  own.top_weights = sequence.top_weights;
  own.log_sum_exp = sequence.log_sum_exp;
  own.cache = call.cache;
  if (mates.behind > 0) {
    const bool has_cache = mate_cache_.has_value();
    const bool is_linear = mate_options.similarity == Similarity::kLinear;  // which has no caches
    add(mates.behind, mates.behind, has_cache && is_linear ? AttentionOptions{} : mate_options);
    sequences.back().cache = has_cache ? &*mate_cache_ : nullptr;
  }
  return sequences;
}

/// Copies the heads of the case's rows, which begin at column 0 of the output.
void FuzzLayer::CopyOutput(const Rows& output, const MutableHeadsView& to) {
  for (int64_t i = 0; i < to.tokens * to.num_heads; ++i) {
    const int64_t token = i / to.num_heads;
    const int64_t head = i % to.num_heads;
    std::memcpy(ElementAt(to.data, to.dtype, token * to.token_stride + head * to.head_stride),
                ElementAt(output.view.data, to.dtype,
                          (output.first + token) * output.view.row_stride + head * to.head_dim),
                to.head_dim * SizeOf(to.dtype));
  }
}

absl::Status FuzzLayer::Run(const Call& call, Workspace& workspace) {
  const Rows hidden = HiddenStates(call);
  LayerCall layer_call{.hidden_states = ReadOnly(hidden.view)};
  Rows output;
  if (way_.residual != 0) {
    output = Residual(call);
    layer_call.residual = ReadOnly(output.view);
  }
  if (way_.residual < 2) {
    const MateRows mates(way_);
    output = NewRows(problem_.output_dtype(), mates.before, call.sequence.query.tokens,
                     mates.behind, shape().d_model);
  }
  if (way_.shared_rotations != 0) {
    layer_call.rotations = &rotations_;
  }
  const std::vector<LayerSequence> sequences = Sequences(call, output);
  layer_call.sequences = sequences;
  if (has_memory()) {
    layer_call.memory = ReadOnly(Memory().view);
  }
  if (weights_->has_memory_values()) {
    layer_call.memory_values = ReadOnly(MemoryValues().view);
  }
  if (way_.block > 0 || (call.is_cancelled && way_.slices == 0)) {
    layer_call.on_rows = [&call](const RowRange&) { return !call.is_cancelled; };
    layer_call.block_rows = std::max<int64_t>(way_.block, 1);
  }
  int slices = 0;
  if (way_.slices != 0) {
    layer_call.yield = [&] { return ++slices < 3 || !call.is_cancelled; };
    layer_call.slice_flops = 1;
  }
  const absl::Status status = layer_->Run(layer_call, workspace);
  if (mate_cache_.has_value()) {
    RETURN_IF_ERROR(mate_cache_->Truncate(kMateKeys));
  }
  RETURN_IF_ERROR(status);
  CopyOutput(output, call.sequence.output);
  return absl::OkStatus();
}

absl::Status FuzzLayer::RunTooLong(KvCache& cache, Workspace& workspace) {
  const Rows row = NewRows(Dtype::kF32, 0, 1, 0, shape().d_model);
  MutableMatrixView rows = row.view;
  rows.rows = kTooManyTokens;
  rows.row_stride = 0;
  const LayerSequence sequence{.query_len = rows.rows, .output = rows, .cache = &cache};
  return layer_->Run({.hidden_states = ReadOnly(rows), .sequences = {&sequence, 1}}, workspace);
}

}  // namespace attention
