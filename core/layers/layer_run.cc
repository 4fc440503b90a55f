#include "core/layers/layer_run.h"

#include <algorithm>

#include "core/attention/resolve.h"
#include "core/layers/rows_per_slice.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/convert_rows.h"

namespace attention {
namespace {

constexpr BufferName kConvertedInput{"converted input"};
constexpr BufferName kConvertedMemory{"converted memory"};
constexpr BufferName kProjected{"projected rows"};
constexpr BufferName kProjectedMemory{"projected memory"};
constexpr BufferName kContext{"context"};

enum ProjectionPart { kQuery, kKey, kValue, kNumParts };

MutableMatrixView FromColumn(MutableMatrixView view, int64_t column) {
  view.data = ElementAt(view.data, view.dtype, column);
  view.cols -= column;
  return view;
}

HeadsView Heads(const MutableMatrixView& rows, int64_t column, int64_t num_heads, int64_t width) {
  return {ElementAt(rows.data, rows.dtype, column),
          rows.dtype,
          rows.rows,
          num_heads,
          width,
          rows.row_stride,
          width};
}

}  // namespace

LayerRun::LayerRun(const LayerState& layer, const LayerCall& call, const CachedKeys& cached,
                   Workspace& workspace)
    : layer_(layer),
      call_(call),
      cached_(cached),
      workspace_(workspace),
      flops_(layer.shape),
      is_fused_(layer.is_fused() && !call.memory.has_value() && layer.extra.count() == 0) {
  const int64_t rows = call.hidden_states.rows;
  hidden_states_ = ToCompute(call.hidden_states, kConvertedInput);
  projected_ =
      Reserve(kProjected, rows,
              is_fused_ ? layer.projection->num_columns() : layer.projection->ColumnOf(kKey));
  LayOutKeys();
  context_ = Reserve(kContext, rows, layer.output->in_features());
  flash_.emplace(FlashSequences(), workspace, call.rotations);
}

MutableMatrixView LayerRun::Reserve(const BufferName& name, int64_t rows, int64_t cols) {
  const size_t bytes = rows * cols * SizeOf(layer_.compute);
  return {workspace_.Buffer(name, bytes), layer_.compute, rows, cols, cols};
}

MatrixView LayerRun::ToCompute(const MatrixView& rows, const BufferName& name) {
  if (rows.dtype == layer_.compute) {
    return rows;
  }
  const MutableMatrixView converted = Reserve(name, rows.rows, rows.cols);
  ConvertRows(rows, converted, workspace_.pool());
  return ReadOnly(converted);
}

int64_t LayerRun::KeyRows(const LayerSequence& sequence) const {
  return call_.memory.has_value() ? sequence.memory_len : sequence.query_len;
}

void LayerRun::LayOutKeys() {
  const PackedLinear& key = *layer_.key.linear;
  const PackedLinear& value = *layer_.value.linear;
  const int64_t key_columns = key.ColumnOf(layer_.key.part + 1) - key.ColumnOf(layer_.key.part);
  value_column_ = key_columns;
  first_keys_.push_back(0);
  for (const LayerSequence& sequence : call_.sequences) {
    first_keys_.push_back(first_keys_.back() + KeyRows(sequence) + layer_.extra.count());
  }
  if (is_fused_) {
    key_value_ = FromColumn(projected_, key.ColumnOf(kKey));
    return;
  }
  const int64_t value_columns =
      value.ColumnOf(layer_.value.part + 1) - value.ColumnOf(layer_.value.part);
  key_value_ = Reserve(kProjectedMemory, first_keys_.back(), key_columns + value_columns);
}

std::vector<FlashSequence> LayerRun::FlashSequences() {
  const MultiHeadAttentionShape& s = layer_.shape;
  const HeadsView query = Heads(projected_, 0, s.num_heads, s.head_dim);
  key_ = Heads(key_value_, 0, s.num_kv_heads, s.head_dim);
  value_ = Heads(key_value_, value_column_, s.num_kv_heads, s.value_head_dim);
  const MutableHeadsView context{context_.data,   context_.dtype,   context_.rows,
                                 s.num_heads,     s.value_head_dim, context_.row_stride,
                                 s.value_head_dim};
  std::vector<FlashSequence> result;
  result.reserve(call_.sequences.size());
  options_.reserve(call_.sequences.size());
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    const LayerSequence& q = call_.sequences[i];
    options_.emplace_back(q.options, layer_.extra.count(), s.num_heads, q.query_len, KeyRows(q));
    const int64_t kv_len = FirstKey(i + 1) - FirstKey(i);
    result.push_back(Resolve({.query = SliceTokens(query, q.first_row, q.query_len),
                              .key = SliceTokens(key_, FirstKey(i), kv_len),
                              .value = SliceTokens(value_, FirstKey(i), kv_len),
                              .output = SliceTokens(context, q.first_row, q.query_len),
                              .weights = q.weights,
                              .top_weights = q.top_weights,
                              .log_sum_exp = q.log_sum_exp,
                              .cache = q.cache,
                              .options = options_.back().options},
                             q.query_len));
    result.back().extra_keys = layer_.extra.count();
  }
  return result;
}

absl::Status LayerRun::ProjectMemoryPart(const Projection& projection, int64_t parts,
                                         const MatrixView& input, int64_t column) {
  std::vector<OutputRows> outputs;
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    const LayerSequence& sequence = call_.sequences[i];
    const int64_t first = call_.memory.has_value() ? sequence.first_memory_row : sequence.first_row;
    outputs.push_back(
        {first, FromColumn(SliceRows(key_value_, FirstKey(i), KeyRows(sequence)), column)});
  }
  const int64_t slice = RowsPerSlice(flops_.key, workspace_.pool(), call_.yield, call_.slice_flops);
  for (int64_t row = 0, rows = 0; row < input.rows; row += rows) {
    RETURN_IF_ERROR(CallYield(call_.yield));
    rows = std::min(slice, input.rows - row);
    projection.linear->Run({.input = SliceRows(input, row, rows),
                            .first_part = projection.part,
                            .end_part = projection.part + parts,
                            .outputs = outputs},
                           workspace_);
    for (OutputRows& output : outputs) {
      output.first_row -= rows;
    }
  }
  return absl::OkStatus();
}

absl::Status LayerRun::ProjectMemory() {
  const MatrixView memory =
      call_.memory.has_value() ? ToCompute(*call_.memory, kConvertedMemory) : hidden_states_;
  if (layer_.key.linear == layer_.value.linear) {
    RETURN_IF_ERROR(ProjectMemoryPart(layer_.key, 2, memory, 0));
  } else {
    RETURN_IF_ERROR(ProjectMemoryPart(layer_.key, 1, memory, 0));
    const MatrixView values = ToCompute(*call_.memory_values, kConvertedMemory);
    RETURN_IF_ERROR(ProjectMemoryPart(layer_.value, 1, values, value_column_));
  }
  const MultiHeadAttentionShape& s = layer_.shape;
  const int64_t extra = layer_.extra.count();
  for (int64_t i = 0; extra > 0 && i < std::ssize(call_.sequences); ++i) {
    const MutableMatrixView rows = SliceRows(key_value_, FirstKey(i + 1) - extra, extra);
    layer_.extra.Write(layer_.extra.key, s.num_kv_heads * s.head_dim, rows);
    layer_.extra.Write(layer_.extra.value, s.num_kv_heads * s.value_head_dim,
                       FromColumn(rows, value_column_));
  }
  return absl::OkStatus();
}

void LayerRun::Project(int64_t first, int64_t end) {
  const OutputRows rows{0, SliceRows(projected_, first, end - first)};
  layer_.projection->Run({.input = SliceRows(hidden_states_, first, end - first),
                          .first_part = kQuery,
                          .end_part = is_fused_ ? kNumParts : kKey,
                          .outputs = {&rows, 1}},
                         workspace_);
}

void LayerRun::ProjectOutput(const Stage& stage) {
  std::vector<OutputRows> outputs;
  const int64_t first = call_.sequences[stage.front().sequence].first_row + stage.front().first_row;
  int64_t rows = 0;
  for (const RowRange& range : stage) {
    outputs.push_back(
        {rows, SliceRows(call_.sequences[range.sequence].output, range.first_row, range.rows)});
    rows += range.rows;
  }
  PackedLinear::Call call{.input = SliceRows(ReadOnly(context_), first, rows), .outputs = outputs};
  if (call_.residual.has_value()) {
    call.residual = SliceRows(*call_.residual, first, rows);
  }
  layer_.output->Run(call, workspace_);
}

}  // namespace attention
