#include "core/kernels/attention/pack_keys.h"

#include <algorithm>

#include "core/kernels/attention/head_rows.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

/// Returns the number of which the keys that are written are a multiple.
int64_t StepOf(const KeysToPack& keys) {
  return keys.sequence->options.similarity == Similarity::kDotProduct ? keys.key_step : kKeyBlock;
}

/// The rows of `rows` keys from `row` on in `view`, of the keys or the values.
PackSource SourceRows(const KeysToPack& keys, const HeadsView& view, int64_t row, int64_t rows) {
  const int64_t first = row * view.token_stride + keys.kv_head * view.head_stride;
  return {.data = ElementAt(view.data, view.dtype, first),
          .dtype = view.dtype,
          .stride = view.token_stride,
          .rows = rows,
          .cols = view.head_dim,
          .packed_rows = RoundUp(rows, StepOf(keys))};
}

/// Packs the values of `rows` keys from `row` on, the first of a key block.
void PackValues(const KeysToPack& keys, int64_t row, int64_t rows) {
  const AttentionPlan& plan = *keys.plan;
  const int64_t columns = keys.page.value_columns;
  const auto element_bytes = static_cast<int64_t>(SizeOf(plan.compute()));
  const PackSource source = SourceRows(keys, keys.sequence->value, row, rows);
  const int64_t before = row - keys.page_key;
  std::byte* target = keys.page.values + before * columns * element_bytes;
  bool are_finite = true;
  for (int64_t first = 0; first < plan.value_width(); first += columns) {
    PackSource panel = source;
    panel.data = ElementAt(source.data, source.dtype, first);
    panel.cols = std::min(columns, source.cols - first);
    are_finite &= CurrentTileKernels().pack_rows(panel, plan.compute(), columns, target);
    target += keys.page.panel_bytes;
  }
  keys.page.values_are_finite[before / kKeyBlock] = are_finite;
}

}  // namespace

KeyValueStorage StorageOf(const AttentionPlan& plan) {
  return plan.compute() == Dtype::kBf16 ? KeyValueStorage::kBf16 : KeyValueStorage::kF32;
}

HeadLayout LayOutHead(const AttentionPlan& plan, Similarity similarity, int64_t keys) {
  return {StorageOf(plan), plan.depth(), plan.value_width(), RoundUp(keys, kKeyBlock),
          similarity == Similarity::kLinear ? plan.value_width() : plan.panel_columns()};
}

void PackKeys(const KeysToPack& keys, std::byte* scratch) {
  const TileKernels& kernels = CurrentTileKernels();
  const FlashSequence& sequence = *keys.sequence;
  const AttentionPlan& plan = *keys.plan;
  const size_t element_bytes = SizeOf(plan.compute());
  const int64_t end = keys.first_key + keys.count;
  for (int64_t row = keys.first_key; row < end; row += kKeyBlock) {
    const int64_t rows = std::min(kKeyBlock, end - row);
    const int64_t block = (row - keys.page_key) / kKeyBlock;
    PackSource key = SourceRows(keys, sequence.key, row, rows);
    const HeadPreparation preparation{
        .norm = sequence.options.key_norm,
        .rotary = sequence.options.rotary,
        .table = keys.rotations,
        .first_row = row,
        .has_feature_map = sequence.options.similarity == Similarity::kLinear};
    if (preparation.does_something()) {
      PrepareHeadRows(preparation, key, plan.compute(), scratch);
      key.data = scratch;
      key.dtype = plan.compute();
      key.stride = key.cols;
    }
    kernels.pack_transposed(key, plan.compute(), plan.depth(),
                            keys.page.keys + block * plan.key_block_elements() * element_bytes);
    PackValues(keys, row, rows);
  }
}

}  // namespace attention
