#include "core/kernels/attention/tile_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/kernels/attention/head_rows.h"
#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/attention/tile_sums.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

/// Whether keys in `storage` are stored in the compute type.
bool IsComputeType(const AttentionPlan& plan, KeyValueStorage storage) {
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

KeyOperands OperandsOf(const QueryTile& tile, bool has_few_rows) {
  const KeyValueStorage storage = tile.packed.storage;
  const Similarity similarity = tile.sequence->options.similarity;
  if (IsComputeType(*tile.plan, storage)) {
    return KeyOperands::kStored;
  }
  if (storage == KeyValueStorage::kInt8 && similarity == Similarity::kDotProduct &&
      MultipliesInt8()) {
    return KeyOperands::kInt8;
  }
  if (storage == KeyValueStorage::kBf16 && has_few_rows) {
    return KeyOperands::kWidened;
  }
  return KeyOperands::kExpanded;
}

/// Whether few-row products of more than kFewRows rows gain with AVX-512: where they need no f32
/// copy of bf16 keys, or on AMD's processors where the keys and values of a head are too large for
/// the L2 cache: a Zen 4 gains from 1 MiB on, a Zen 5 from 2 MiB.
bool GainsWithAvx512(const QueryTile& tile) {
  const Processor& processor = CurrentAbilities().processor;
  const int64_t large_head_bytes = processor.is_zen3_or_4 ? 1 << 20 : 2 << 20;
  const KeyValueStorage storage = tile.packed.storage;
  const int64_t head_bytes = tile.sequence->kv_len() *
                             (tile.plan->depth() + tile.plan->value_width()) *
                             ElementBytes(storage);
  return (storage == KeyValueStorage::kBf16 && !IsComputeType(*tile.plan, storage)) ||
         (!processor.is_intel && head_bytes >= large_head_bytes);
}

/// Whether a matrix unit computes the tile's matrix products.
bool UsesMatrixUnit(const QueryTile& tile) {
  return tile.plan->compute() == Dtype::kBf16 && HasMatrixUnit();
}

/// Returns the most rows that few-row products compute. Up to kFewRows, a tile waits for memory.
/// Twice as many gain in two cases. Where a cache of the server holds the keys, the second product
/// finds in a cache of the processor what the first has read. And of short sequences matrix
/// products compute kKeyStep keys, twice as many as needed.
int64_t MostFewRows(const QueryTile& tile) {
  const FlashSequence& sequence = *tile.sequence;
  const bool gains_with_cache = sequence.cached.has_value() &&
                                (CurrentAbilities().vector_bits < 512 || GainsWithAvx512(tile));
  const bool is_short = sequence.kv_len() <= kFewRowKeyStep && !UsesMatrixUnit(tile);
  return gains_with_cache || is_short ? 2 * kFewRows : kFewRows;
}

/// Whether few-row products compute the tile.
bool HasFewRows(const QueryTile& tile) {
  return tile.rows() <= MostFewRows(tile) && CurrentTileKernels().few_row_product != nullptr &&
         (!UsesMatrixUnit(tile) || HasMatrixUnitBits());
}

/// A scale that is too small for ExponentScale needs the logits kernel too.
bool ShapesLogits(const AttentionOptions& options) {
  return options.similarity == Similarity::kDotProduct &&
         (options.softcap > 0 || !options.alibi_slopes.empty() || options.bias.data != nullptr ||
          std::abs(*options.scale) * std::numbers::log2e_v<float> <
              std::numeric_limits<float>::min());
}

/// The result is neither 0 nor infinite, because 0 times -infinity (a hidden key) and infinity
/// times 0 (equal scores) are NaN.
float ExponentScale(const AttentionOptions& options) {
  double scale = 1;
  if (options.similarity == Similarity::kGaussian) {
    scale = HasOrdinarySquares(options.bandwidth) ? 1 / options.bandwidth : 1;
  } else if (!ShapesLogits(options)) {
    scale = std::abs(*options.scale);
  }
  using Limits = std::numeric_limits<float>;
  return static_cast<float>(
      std::clamp<double>(scale * std::numbers::log2e_v<float>, Limits::min(), Limits::max()));
}

/// Writes the tile's rows of one query head to `target`, in the compute type.
void ReadQueryRows(const TileSetup& setup, const TileBuffers& buffers, int64_t head, void* target) {
  const QueryTile& tile = setup.tile;
  const AttentionOptions& options = setup.sequence.options;
  const HeadsView& view = setup.sequence.query;
  const Dtype compute = setup.plan.compute();
  const int64_t first = tile.first_row * view.token_stride + head * view.head_stride;
  const PackSource source = {ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride,
                             tile.rows_per_head, view.head_dim};
  const bool negate = *options.scale < 0 && options.similarity == Similarity::kDotProduct;
  const HeadPreparation preparation{
      .norm = options.query_norm,
      .rotary = options.rotary,
      .table = tile.rotations == nullptr ? nullptr : tile.rotations->query,
      .first_row = tile.first_row,
      .has_feature_map = options.similarity == Similarity::kLinear};
  if (!preparation.does_something() && (!setup.bf16() || view.dtype == Dtype::kBf16)) {
    setup.kernels.copy_rows(source, compute, setup.plan.depth(), negate, target);
    return;
  }
  void* prepared = buffers.scores;  // which no key tile uses yet
  PrepareHeadRows(preparation, source, compute, prepared);
  setup.kernels.copy_rows({prepared, compute, view.head_dim, tile.rows_per_head, view.head_dim},
                          compute, setup.plan.depth(), negate, target);
}

int64_t TilesAtOnce(const TileSetup& setup) {
  const bool waits_for_memory =
      setup.has_few_rows && setup.rows <= kFewRows && !setup.expands() && !setup.tile.packs_keys;
  return waits_for_memory ? kFewRowTilesAtOnce : 1;
}

}  // namespace

TileSetup::TileSetup(const QueryTile& query_tile)
    : tile(query_tile),
      plan(*tile.plan),
      sequence(*tile.sequence),
      kernels(CurrentTileKernels()),
      processor(CurrentAbilities().processor),
      rows(tile.rows()),
      element_bytes(static_cast<int64_t>(SizeOf(plan.compute()))),
      has_few_rows(HasFewRows(tile)),
      operands(OperandsOf(tile, has_few_rows)),
      key_step(KeyStepOf(tile)),
      tiles_at_once(TilesAtOnce(*this)),
      shapes_logits(ShapesLogits(sequence.options)),
      scale_log2e(ExponentScale(sequence.options)) {}

int64_t KeyStepOf(const QueryTile& tile) {
  // A matrix unit's sums over 16 and over 32 keys may have other bits.
  return HasFewRows(tile) && !UsesMatrixUnit(tile) ? kFewRowKeyStep : kKeyStep;
}

bool ExpandsKeys(const QueryTile& tile) {
  return OperandsOf(tile, HasFewRows(tile)) == KeyOperands::kExpanded;
}

/// Divides memory into buffers that are aligned to 64 bytes. Without memory it counts their bytes.
class TileBuffers::Division {
 public:
  explicit Division(std::byte* memory) : memory_(memory) {}

  template <typename T>
  T* Take(int64_t count) {
    std::byte* taken = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += RoundUp(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(taken);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  size_t bytes_ = 0;
};

TileBuffers::TileBuffers(const TileSetup& setup, const TileMemory& memory)
    : TileBuffers(setup.plan, Division(memory.scratch)) {
  expanded = memory.expanded;
}

TileBuffers::TileBuffers(const AttentionPlan& plan, Division&& memory)
    : scores(memory.Take<float>(kQueryTile * kScoreStride)),
      probabilities(memory.Take<uint16_t>(kQueryTile * kScoreStride)),
      accumulator(memory.Take<float>(kQueryTile * plan.value_width())),
      total(memory.Take<float>(TileSums::Floats(kQueryTile, plan.value_width()))),
      query(memory.Take<float>(kQueryTile * plan.depth())),
      values_copy(memory.Take<float>(kKeyTile * std::max(plan.value_width(), plan.depth()))),
      query_scales(memory.Take<float>(kQueryTile)),
      largest(memory.Take<float>(kQueryTile)),
      integer_sums(memory.Take<int32_t>(kQueryTile * plan.value_width())),
      bytes_(memory.bytes()) {}

size_t TileBuffers::Bytes(const AttentionPlan& plan) {
  return TileBuffers(plan, Division(nullptr)).bytes_;
}

void ReadQuery(const TileSetup& setup, const TileBuffers& buffers) {
  const int64_t depth = setup.plan.depth();
  const int64_t row_bytes = depth * setup.element_bytes;
  // 8-bit queries are rounded from rows of the compute type.
  auto* target = static_cast<std::byte*>(setup.int8() ? buffers.values_copy : buffers.query);
  for (int64_t head = 0; head < setup.tile.num_heads; ++head) {
    ReadQueryRows(setup, buffers, setup.tile.first_head + head,
                  target + head * setup.tile.rows_per_head * row_bytes);
  }
  const int64_t padded_rows = AttentionPlan::PaddedRows(setup.rows);
  std::memset(target + setup.rows * row_bytes, 0, (padded_rows - setup.rows) * row_bytes);
  if (setup.int8()) {
    setup.kernels.quantise_rows(
        {target, setup.plan.compute(), depth, padded_rows, depth},
        {static_cast<uint8_t*>(buffers.query), depth, buffers.query_scales});
  }
}

void StoreOutput(const TileSetup& setup, const TileBuffers& buffers, const float* denominators) {
  const QueryTile& tile = setup.tile;
  const MutableHeadsView& output = setup.sequence.output;
  for (int64_t head = 0; head < tile.num_heads; ++head) {
    const int64_t row = head * tile.rows_per_head;
    const int64_t first =
        tile.first_row * output.token_stride + (tile.first_head + head) * output.head_stride;
    setup.kernels.store({.source = buffers.accumulator + row * setup.plan.value_width(),
                         .source_stride = setup.plan.value_width(),
                         .rows = tile.rows_per_head,
                         .cols = output.head_dim,
                         .row_sum = denominators + row,
                         .target = ElementAt(output.data, output.dtype, first),
                         .target_dtype = output.dtype,
                         .target_stride = output.token_stride});
  }
}

}  // namespace attention
