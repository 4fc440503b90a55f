// The setup and the memory with which a thread computes a query tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/expanded_keys.h"
#include "core/kernels/attention/query_tile.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {

/// How keys and values reach the products.
enum class KeyOperands {
  kStored,    // as they are stored
  kInt8,      // as they are stored; queries and probabilities are rounded to 8 bits
  kWidened,   // stored as bf16, widened to f32 by the kernel that reads them
  kExpanded,  // converted to the compute type, one key tile at a time
};

/// A query tile and the way it is computed: everything that is decided before its first key.
struct TileSetup {
  /// Borrows the tile. REQUIRES: a KernelLease lives.
  explicit TileSetup(const QueryTile& query_tile);

  bool bf16() const { return plan.compute() == Dtype::kBf16; }
  bool int8() const { return operands == KeyOperands::kInt8; }
  bool widens() const { return operands == KeyOperands::kWidened; }
  bool expands() const { return operands == KeyOperands::kExpanded; }

  /// The query head, and the row of the sequence, that row `row` of the tile belongs to.
  int64_t HeadOf(int64_t row) const { return tile.first_head + row / tile.rows_per_head; }
  int64_t RowOf(int64_t row) const { return tile.first_row + row % tile.rows_per_head; }

  const HeadPage& PageOf(int64_t key) const {
    return tile.packed
        .pages[key / kKeyBlock / tile.packed.blocks_per_page * tile.packed.page_stride];
  }
  /// The number of keys of the page that come before `key`.
  int64_t KeysBefore(int64_t key) const {
    return key / kKeyBlock % tile.packed.blocks_per_page * kKeyBlock + key % kKeyBlock;
  }
  bool ValuesAreFinite(int64_t key) const {
    return PageOf(key).values_are_finite[KeysBefore(key) / kKeyBlock] != 0;
  }

  const QueryTile& tile;
  const AttentionPlan& plan;
  const FlashSequence& sequence;
  const TileKernels& kernels;
  const Processor& processor;
  int64_t rows;           // of the tile
  int64_t element_bytes;  // of the compute type
  bool has_few_rows;      // few-row products, instead of matrix products
  KeyOperands operands;
  int64_t key_step;  // the columns that are computed are a multiple of it
  /// The number of key tiles that are scored before the first of their values is read, so that
  /// memory is read in long contiguous parts.
  int64_t tiles_at_once;
  bool shapes_logits;  // the scores need the logits kernel before softmax
  float scale_log2e;   // score * scale_log2e is the exponent of 2
};

/// Returns TileSetup::key_step.
int64_t KeyStepOf(const QueryTile& tile);

/// TileSetup::tiles_at_once of a tile of up to kFewRows rows: the key tiles of a section. Their
/// scores have room in the score memory, which has kQueryTile rows.
inline constexpr int64_t kFewRowTilesAtOnce = kKeySection / kKeyTile;
static_assert(kFewRowTilesAtOnce * kFewRows <= kQueryTile);

/// Returns whether the tile needs TileMemory::expanded. Nothing is converted with KeyOperands other
/// than kExpanded.
bool ExpandsKeys(const QueryTile& tile);

/// The memory with which a thread computes a query tile. Borrowed.
struct TileMemory {
  std::byte* scratch;                // TileBuffers::Bytes, aligned to 64 bytes
  ExpandedKeys* expanded = nullptr;  // of the thread
};

/// The scratch memory of a thread, divided into the buffers of a query tile.
struct TileBuffers {
  TileBuffers(const TileSetup& setup, const TileMemory& memory);

  float* scores;            // [kQueryTile, kKeyTile], row stride kScoreStride
  uint16_t* probabilities;  // as scores, bf16 or u8
  float* accumulator;       // [kQueryTile, value_width]: the weighted sums of values
  float* total;             // the TileSums of the key sections so far
  void* query;              // [kQueryTile, depth] of the compute type, or u8
  void* values_copy;        // [kKeyTile, max(depth, value_width)] floats: a copy of values; also
                            // rows that are being packed or rounded
  float* query_scales;      // [kQueryTile], of u8 queries
  float* largest;           // [kQueryTile]: SoftmaxTile::largest of the key tile, with kInt8
  int32_t* integer_sums;    // [kQueryTile, value_width]
  ExpandedKeys* expanded = nullptr;  // with KeyOperands::kExpanded

  /// Returns the bytes of scratch memory that a tile needs.
  static size_t Bytes(const AttentionPlan& plan);

 private:
  class Division;
  TileBuffers(const AttentionPlan& plan, Division&& memory);

  size_t bytes_;  // of all buffers
};

/// Writes the tile's query rows, normalised and rotated, to buffers.query.
void ReadQuery(const TileSetup& setup, const TileBuffers& buffers);

/// Writes the tile's rows of the output: the accumulator divided by `denominators` [rows].
void StoreOutput(const TileSetup& setup, const TileBuffers& buffers, const float* denominators);

}  // namespace attention
