#include "core/kernels/attention/linear_attention.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/tile_products.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// The row attends to keys [0, VisibleEnd), and to the extra keys.
int64_t VisibleEnd(const QueryTile& tile, int64_t row) {
  return tile.sequence->visibility().EndWithoutExtraKeys(row);
}

const HeadPage& PageOfBlock(const PackedHead& packed, int64_t block) {
  return packed.pages[block / packed.blocks_per_page * packed.page_stride];
}

/// Returns the sum of `count` numbers, a multiple of 16.
float Sum(const float* values, int64_t count) {
  Vec sum = {};
  for (int64_t i = 0; i < count; i += 16) {
    sum += Load(values + i);
  }
  return ReduceSum(sum);
}

/// The same of the products of two rows.
float Dot(const float* a, const float* b, int64_t count) {
  Vec sum = {};
  for (int64_t i = 0; i < count; i += 16) {
    sum = MulAdd(Load(a + i), Load(b + i), sum);
  }
  return ReduceSum(sum);
}

}  // namespace

LinearState::LinearState(const AttentionPlan& plan, std::byte* memory)
    : plan_(plan), sums_(reinterpret_cast<float*>(memory)) {
  std::memset(memory, 0, SizeBytes(plan));
}

/// The sums of the padding stay 0: the padding of keys times an infinite value would be NaN.
void LinearState::AddBlock(const float* keys, const float* values, int64_t head_dim) {
  float* key_sums = sums_ + plan_.depth() * plan_.value_width();
  for (int64_t d = 0; d < head_dim; d += kQueryTile) {
    const int64_t rows = std::min(kQueryTile, head_dim - d);
    FindGemm({.m = rows,
              .n = plan_.value_width(),
              .k = kKeyBlock,
              .lda = kKeyBlock,
              .ldb = plan_.value_width(),
              .ldc = plan_.value_width(),
              .accumulate = true})
        .Run(keys + d * kKeyBlock, values, sums_ + d * plan_.value_width());
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    key_sums[d] += Sum(keys + d * kKeyBlock, kKeyBlock);
  }
}

void LinearState::Advance(const QueryTile& tile, int64_t blocks) {
  const PackedHead& packed = tile.packed;
  for (; num_blocks_ < blocks; ++num_blocks_) {
    const HeadPage& page = PageOfBlock(packed, num_blocks_);
    const int64_t block = num_blocks_ % packed.blocks_per_page;
    AddBlock(reinterpret_cast<const float*>(page.keys) + block * plan_.key_block_elements(),
             reinterpret_cast<const float*>(page.values) + block * plan_.value_block_elements(),
             tile.sequence->key.head_dim);
  }
}

/// Adds keys [first_key, ends[r]) of the key block of `first_key` to the accumulator and to
/// `row_sum`.
void LinearState::AddKeys(const TileSetup& setup, const TileBuffers& buffers, int64_t first_key,
                          const int64_t* ends, float* row_sum) {
  KeyTile keys;
  keys.first_key = first_key / kKeyBlock * kKeyBlock;
  keys.scores = buffers.scores;
  keys.probabilities = buffers.probabilities;
  for (int64_t r = 0; r < setup.rows; ++r) {
    keys.visible_begin[r] = first_key - keys.first_key;
    keys.visible_end[r] = ends[r] - keys.first_key;
  }
  const TileProducts products(setup, buffers);
  const Rectangle all{0, setup.rows, 0, kKeyBlock};
  products.Score(keys, all);
  for (int64_t r = 0; r < setup.rows; ++r) {
    std::fill_n(keys.ScoreRow(r), first_key - keys.first_key, kMinusInfinity);
  }
  setup.kernels.weights({.scores = keys.scores,
                         .stride = kScoreStride,
                         .rows = setup.rows,
                         .cols = kKeyBlock,
                         .visible_end = keys.visible_end,
                         .row_sum = row_sum});
  if (setup.ValuesAreFinite(keys.first_key)) {
    products.AddValues(keys, all, /*accumulate=*/true);
  } else {
    products.AddVisibleValues(keys, all, /*accumulate=*/true);
  }
}

void LinearState::AttendRows(const QueryTile& tile, std::byte* scratch) const {
  const TileSetup setup(tile);
  const TileBuffers buffers(setup, {scratch});
  int64_t ends[kQueryTile];
  int64_t last_end = 0;
  for (int64_t r = 0; r < setup.rows; ++r) {
    ends[r] = VisibleEnd(tile, setup.RowOf(r));
    last_end = std::max(last_end, ends[r]);
  }
  const int64_t end_key = tile.sequence->kv_len();
  const int64_t first_extra_key = end_key - tile.sequence->extra_keys;
  const float* key_sums = sums_ + plan_.depth() * plan_.value_width();
  if (last_end > 0 || first_extra_key < end_key) {
    ReadQuery(setup, buffers);
    FindGemm({.m = AttentionPlan::PaddedRows(setup.rows),
              .n = plan_.value_width(),
              .k = plan_.depth(),
              .lda = plan_.depth(),
              .ldb = plan_.value_width(),
              .ldc = plan_.value_width()})
        .Run(buffers.query, sums_, buffers.accumulator);
  }
  const auto* query = static_cast<const float*>(buffers.query);
  float row_sum[kQueryTile];
  for (int64_t r = 0; r < setup.rows; ++r) {
    row_sum[r] = ends[r] == 0 ? 0 : Dot(query + r * plan_.depth(), key_sums, plan_.depth());
  }
  if (last_end > num_blocks_ * kKeyBlock) {
    AddKeys(setup, buffers, num_blocks_ * kKeyBlock, ends, row_sum);
  }
  std::fill_n(ends, setup.rows, end_key);
  for (int64_t key = first_extra_key; key < end_key; key = (key / kKeyBlock + 1) * kKeyBlock) {
    AddKeys(setup, buffers, key, ends, row_sum);
  }
  StoreOutput(setup, buffers, row_sum);
}

void LinearState::Attend(const QueryTile& tile, int64_t rows, int64_t num_heads,
                         std::byte* scratch) {
  const int64_t end_row = tile.first_row + rows;
  for (int64_t row = tile.first_row; row < end_row;) {
    const int64_t blocks = VisibleEnd(tile, row) / kKeyBlock;
    QueryTile part = tile;
    part.first_row = row;
    while (row < end_row && row - part.first_row < kQueryTile &&
           VisibleEnd(tile, row) / kKeyBlock == blocks) {
      ++row;
    }
    part.rows_per_head = row - part.first_row;
    Advance(tile, blocks);
    for (int64_t head = 0; head < num_heads; ++head) {
      part.first_head = tile.first_head + head;
      AttendRows(part, scratch);
    }
  }
}

}  // namespace attention
