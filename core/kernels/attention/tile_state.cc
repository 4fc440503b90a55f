#include "core/kernels/attention/tile_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/kernels/attention/head_rows.h"
#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/onednn/isa.h"

namespace attention {
namespace {

template <typename T>
T* Take(std::byte*& scratch, int64_t count) {
  T* taken = reinterpret_cast<T*>(scratch);
  scratch += RoundUp(count * static_cast<int64_t>(sizeof(T)), 64);
  return taken;
}

/// Whether keys in `storage` are multiplied as they are.
bool IsOperand(const AttentionPlan& plan, KeyValueStorage storage) {
  switch (storage) {
    case KeyValueStorage::kF32:
      return plan.compute() == Dtype::kF32;
    case KeyValueStorage::kBf16:
      return plan.compute() == Dtype::kBf16;
    case KeyValueStorage::kInt8:
      return false;
  }
  return false;
}

/// Neither 0 nor infinite, which would make NaN of a hidden key's -infinity, or of equal scores.
float ExponentScale(const AttentionOptions& s, bool shapes_logits) {
  double scale = 1;
  if (s.similarity == Similarity::kGaussian) {
    scale = 1 / s.bandwidth;
  } else if (!shapes_logits) {
    scale = std::abs(*s.scale);
  }
  using Limits = std::numeric_limits<float>;
  return static_cast<float>(
      std::clamp<double>(scale * std::numbers::log2e_v<float>, Limits::min(), Limits::max()));
}

}  // namespace

bool TileState::int8() const {
  return tile.packed.storage == KeyValueStorage::kInt8 &&
         sequence.options.similarity == Similarity::kDotProduct && MultipliesInt8();
}

bool TileState::expands() const {
  return !int8() && !widens && !IsOperand(plan, tile.packed.storage);
}

TileState::TileState(const QueryTile& t, std::byte* scratch)
    : plan(*t.plan),
      tile(t),
      sequence(*t.sequence),
      kernels(CurrentTileKernels()),
      rows(t.rows()),
      element_bytes(static_cast<int64_t>(SizeOf(plan.compute()))),
      streams(rows <= kStreamedRows && kernels.stream != nullptr &&
              (plan.compute() != Dtype::kBf16 || !HasMatrixUnit() || StreamsAsMatrixUnit())),
      widens(streams && tile.packed.storage == KeyValueStorage::kBf16 &&
             plan.compute() == Dtype::kF32 && !IsRegression(sequence.options.similarity)),
      // A scale of 0 times a hidden key's -infinity would be NaN: it goes the long way.
      shapes_logits(sequence.options.similarity == Similarity::kDotProduct &&
                    (sequence.options.softcap > 0 || !sequence.options.alibi_slopes.empty() ||
                     sequence.options.bias.data != nullptr || *sequence.options.scale == 0)),
      first_scores(Take<float>(scratch, kQueryTile * kScoreStride)),
      first_probabilities(Take<uint16_t>(scratch, kQueryTile * kScoreStride)),
      scores(first_scores),
      probabilities(first_probabilities),
      accumulator(Take<float>(scratch, kQueryTile * plan.value_width())),
      query(Take<float>(scratch, kQueryTile * plan.depth())),
      values_copy(Take<float>(scratch, kKeyTile * std::max(plan.value_width(), plan.depth()))),
      query_scales(Take<float>(scratch, kQueryTile)),
      integer_sums(Take<int32_t>(scratch, kQueryTile * plan.value_width())),
      expanded_keys(Take<float>(scratch, expands() ? kKeyTile * plan.depth() : 0)),
      expanded_values(Take<float>(scratch, expands() ? kKeyTile * plan.value_width() : 0)) {
  scale_log2e = ExponentScale(sequence.options, shapes_logits);
  keys = {std::numeric_limits<int64_t>::max(), 0};
  common_keys = {0, std::numeric_limits<int64_t>::max()};
  for (int64_t r = 0; r < rows; ++r) {
    const KeyRange range = sequence.visibility().Range(
        tile.first_row + (r < tile.rows_per_head ? r : r % tile.rows_per_head));
    range_begin[r] = range.begin;
    range_end[r] = range.end;
    common_keys = {std::max(common_keys.begin, range.begin), std::min(common_keys.end, range.end)};
    if (range.begin < range.end) {
      keys = {std::min(keys.begin, range.begin), std::max(keys.end, range.end)};
    }
  }
  if (keys.begin < keys.end) {
    ReadQuery();
  }
}

void TileState::ReadQueryRows(int64_t head, void* target) {
  const HeadsView& view = sequence.query;
  const int64_t first = tile.first_row * view.token_stride + head * view.head_stride;
  const PackSource source = {ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride,
                             tile.rows_per_head, view.head_dim};
  const bool negate =
      *sequence.options.scale < 0 && sequence.options.similarity == Similarity::kDotProduct;
  const bool prepares =
      sequence.options.query_norm.has_value() || sequence.options.rotary.has_value() ||
      sequence.options.similarity == Similarity::kLinear || (bf16() && view.dtype != Dtype::kBf16);
  if (!prepares) {
    kernels.copy_rows(source, plan.compute(), plan.depth(), negate, target);
    return;
  }
  void* prepared = scores;  // which are not there yet
  PrepareHeadRows({.norm = sequence.options.query_norm,
                   .rotary = sequence.options.rotary,
                   .table = tile.rotations == nullptr ? nullptr : &tile.rotations->query,
                   .first_row = tile.first_row,
                   .has_feature_map = sequence.options.similarity == Similarity::kLinear},
                  source, plan.compute(), prepared);
  kernels.copy_rows({prepared, plan.compute(), view.head_dim, tile.rows_per_head, view.head_dim},
                    plan.compute(), plan.depth(), negate, target);
}

void TileState::ReadQuery() {
  const int64_t row_bytes = plan.depth() * element_bytes;
  // 8-bit queries are made from rows of the compute type.
  auto* target = static_cast<std::byte*>(int8() ? static_cast<void*>(values_copy) : query);
  for (int64_t head = 0; head < tile.num_heads; ++head) {
    ReadQueryRows(tile.first_head + head, target + head * tile.rows_per_head * row_bytes);
  }
  const int64_t padded_rows = AttentionPlan::PaddedRows(rows);
  std::memset(target + rows * row_bytes, 0, (padded_rows - rows) * row_bytes);
  if (int8()) {
    kernels.quantise_rows({target, plan.compute(), plan.depth(), padded_rows, plan.depth()},
                          {static_cast<uint8_t*>(query), plan.depth(), query_scales});
  }
}

const std::byte* TileState::Keys(int64_t key) const {
  if (expands()) {
    return reinterpret_cast<const std::byte*>(expanded_keys + key % kKeyTile * plan.depth());
  }
  return PageOf(key).keys + KeysBefore(key) * plan.depth() * ElementBytes(tile.packed.storage);
}

const std::byte* TileState::Values(int64_t key) const {
  if (expands()) {
    return reinterpret_cast<const std::byte*>(expanded_values +
                                              key % kKeyTile * plan.value_width());
  }
  return PageOf(key).values +
         KeysBefore(key) * plan.value_width() * ElementBytes(tile.packed.storage);
}

void StoreOutput(const TileState& s, const float* denominators) {
  const MutableHeadsView& output = s.sequence.output;
  for (int64_t head = 0; head < s.tile.num_heads; ++head) {
    const int64_t row = head * s.tile.rows_per_head;
    const int64_t first =
        s.tile.first_row * output.token_stride + (s.tile.first_head + head) * output.head_stride;
    s.kernels.store({.source = s.AccumulatorRow(row),
                     .source_stride = s.plan.value_width(),
                     .rows = s.tile.rows_per_head,
                     .cols = output.head_dim,
                     .row_sum = denominators + row,
                     .target = ElementAt(output.data, output.dtype, first),
                     .target_dtype = output.dtype,
                     .target_stride = output.token_stride});
  }
}

size_t TileScratchBytes(const AttentionPlan& plan, KeyValueStorage storage) {
  const int64_t row_floats = kScoreStride + 2 * plan.value_width() + plan.depth() + 1;
  const int64_t expanded = IsOperand(plan, storage) ? 0 : plan.depth() + plan.value_width();
  const int64_t floats =
      kQueryTile * row_floats + kKeyTile * (std::max(plan.value_width(), plan.depth()) + expanded);
  return floats * sizeof(float) + kQueryTile * kScoreStride * sizeof(uint16_t) + 10 * 64;
}

}  // namespace attention
