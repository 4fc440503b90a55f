#include "core/kernels/attention/linear_attention.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/attention/tile_products.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/gemm/gemm.h"

namespace attention {
namespace {

/// Keys that the row sees: the first of the sequence.
int64_t VisibleEnd(const QueryTile& tile, int64_t row) {
  return tile.sequence->visibility().Range(row).end;
}

const HeadPage& PageOfBlock(const PackedHead& packed, int64_t block) {
  return packed.pages[block / packed.blocks_per_page * packed.page_stride];
}

float Dot(const float* a, const float* b, int64_t count) {
  float lanes[16] = {};
  for (int64_t i = 0; i < count; i += 16) {  // widths are padded to it
    for (int64_t lane = 0; lane < 16; ++lane) {
      lanes[lane] += a[i + lane] * b[i + lane];
    }
  }
  float sum = 0;
  for (const float lane : lanes) {
    sum += lane;
  }
  return sum;
}

/// Adds the keys of block `block`, some of which are hidden from the rows.
void AddOwnBlock(TileState& s, int64_t block) {
  const int64_t first_key = block * kKeyBlock;
  for (int64_t r = 0; r < s.rows; ++r) {
    s.visible_end[r] = s.range_end[r] - first_key;
  }
  Score(s, first_key, {0, s.rows, 0, kKeyBlock});
  s.kernels.weights({.scores = s.scores,
                     .stride = kScoreStride,
                     .rows = s.rows,
                     .cols = kKeyBlock,
                     .visible_end = s.visible_end,
                     .row_sum = s.row_sum});
  const Block all{0, s.rows, 0, kKeyBlock};
  if (s.ValuesAreFinite(first_key)) {
    WeightedSum(s, first_key, all, /*accumulate=*/true);
  } else {
    WeightedSumOfSeen(s, first_key, all, /*accumulate=*/true);
  }
}

}  // namespace

LinearState::LinearState(const AttentionPlan& plan)
    : plan_(plan), sums_(plan.depth() * (plan.value_width() + 1) * sizeof(float)) {
  std::memset(sums_.data(), 0, sums_.size_bytes());
}

void LinearState::AddBlock(const float* keys, const float* values) {
  auto* sums = reinterpret_cast<float*>(sums_.data());
  float* key_sums = sums + plan_.depth() * plan_.value_width();
  for (int64_t d = 0; d < plan_.depth(); d += kQueryTile) {
    const int64_t rows = std::min(kQueryTile, plan_.depth() - d);
    FindGemm({.m = rows,
              .n = plan_.value_width(),
              .k = kKeyBlock,
              .lda = kKeyBlock,
              .ldb = plan_.value_width(),
              .ldc = plan_.value_width(),
              .accumulate = true})
        .Run(keys + d * kKeyBlock, values, sums + d * plan_.value_width());
  }
  for (int64_t d = 0; d < plan_.depth(); ++d) {
    float sum = 0;
    for (int64_t key = 0; key < kKeyBlock; ++key) {
      sum += keys[d * kKeyBlock + key];
    }
    key_sums[d] += sum;
  }
}

void LinearState::Advance(const PackedHead& packed, int64_t blocks) {
  for (; num_blocks_ < blocks; ++num_blocks_) {
    const HeadPage& page = PageOfBlock(packed, num_blocks_);
    const int64_t block = num_blocks_ % packed.blocks_per_page;
    AddBlock(reinterpret_cast<const float*>(page.keys) + block * plan_.key_block_elements(),
             reinterpret_cast<const float*>(page.values) + block * plan_.value_block_elements());
  }
}

void LinearState::AttendRows(const QueryTile& tile, std::byte* scratch) const {
  TileState s(tile, scratch);
  const auto* sums = reinterpret_cast<const float*>(sums_.data());
  const float* key_sums = sums + plan_.depth() * plan_.value_width();
  const int64_t end = s.keys.end;
  if (end > 0) {
    FindGemm({.m = AttentionPlan::PaddedRows(s.rows),
              .n = plan_.value_width(),
              .k = plan_.depth(),
              .lda = plan_.depth(),
              .ldb = plan_.value_width(),
              .ldc = plan_.value_width()})
        .Run(s.query, sums, s.accumulator);
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    s.row_sum[r] = s.range_end[r] == 0 ? 0
                                       : Dot(reinterpret_cast<const float*>(s.QueryRow(r)),
                                             key_sums, plan_.depth());
  }
  if (end > num_blocks_ * kKeyBlock) {
    AddOwnBlock(s, num_blocks_);
  }
  StoreOutput(s, s.row_sum);
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
    Advance(tile.packed, blocks);
    for (int64_t head = 0; head < num_heads; ++head) {
      part.first_head = tile.first_head + head;
      AttendRows(part, scratch);
    }
  }
}

}  // namespace attention
