#include "core/kernels/attention/flash_attention.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/kernels/attention/attention_tile.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/tile_tasks.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/round_up.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr BufferName kPackedKeyValue{"packed keys and values"};

/// The largest size of a packed head that one thread packs and attends to at once, so that the head
/// stays in the L2 cache.
constexpr int64_t kPrivateHeadBytes = 512 << 10;
/// The least number of heads for each thread when a thread packs whole heads. With fewer, threads
/// would wait for the last head.
constexpr int64_t kHeadsPerThread = 6;

/// Returns the size of keys and values from which on rows are prefetched. A Zen 3 or 4 gains as
/// soon as the L2 cache cannot hold them. A Zen 5 gains nothing below 2 MiB
/// (tests/bench/RESULTS.md). Other processors have the limit of a Zen 5.
int64_t PrefetchedBytes() {
  return CurrentAbilities().processor.is_zen3_or_4 ? 512 << 10 : 2 << 20;
}

/// The most heads of which a stage makes tasks at a time.
constexpr size_t kMostHeads = 16384;

}  // namespace

FlashAttention::FlashAttention(std::span<const FlashSequence> sequences, Workspace& workspace,
                               RotaryTables* rotations)
    : workspace_(workspace) {
  prepared_.reserve(sequences.size());
  const AttentionPlan* plan = nullptr;
  for (const FlashSequence& s : sequences) {
    if (plan == nullptr || plan->compute() != s.compute) {  // all have the same widths
      plan = &AttentionPlan::Get(s.compute, s.query.head_dim, s.value.head_dim);
    }
    tile_scratch_bytes_ = std::max(tile_scratch_bytes_, TileBuffers::Bytes(*plan));
    prepared_.push_back({s, plan});
  }
  MakeRotations(rotations == nullptr ? own_rotations_ : *rotations);
}

void FlashAttention::MakeRotations(RotaryTables& tables) {
  std::vector<const RotaryTable**> wanted;
  std::vector<RotaryTables::Range> ranges;
  for (Prepared& prepared : prepared_) {
    const FlashSequence& s = prepared.sequence;
    if (s.options.rotary.has_value()) {
      const Rotary* rotary = &*s.options.rotary;
      wanted.push_back(&prepared.rotations.query);
      ranges.push_back({rotary, s.query.head_dim, *s.options.query_offset, s.query.tokens});
      if (!prepared.is_cached()) {
        wanted.push_back(&prepared.rotations.key);
        ranges.push_back({rotary, s.query.head_dim, 0, s.kv_len()});
      }
    }
  }
  const std::vector<const RotaryTable*> made = tables.Get(ranges, workspace_.pool());
  for (size_t i = 0; i < wanted.size(); ++i) {
    *wanted[i] = made[i];
  }
}

PackedHead FlashAttention::HeadOf(const Prepared& prepared, const HeadWork& work) const {
  const Packer packer = work.rows->packer;
  if (packer == Packer::kCache) {
    const CachedKeyValues& cached = *prepared.sequence.cached;
    // An empty cache has no pages, and nothing reads them.
    const HeadPage* pages = cached.pages.empty() ? nullptr : &cached.pages[work.kv_head];
    return {pages, cached.num_kv_heads, cached.blocks_per_page, cached.storage};
  }
  const KeyValueStorage storage = StorageOf(*prepared.plan);
  if (packer == Packer::kTile) {  // each key tile in the one page of a thread
    return {.page_stride = 0, .blocks_per_page = kKeyTile / kKeyBlock, .storage = storage};
  }
  return {.pages = packer == Packer::kPackKeys ? &prepared.heads[work.kv_head] : &work.page,
          .storage = storage};
}

int64_t FlashAttention::KeysNeeded(const RowRange& range) const {
  const Visibility visibility = prepared_[range.sequence].sequence.visibility();
  int64_t needed = 0;
  for (int64_t row = range.first_row; row < range.first_row + range.rows; ++row) {
    needed = std::max(needed, visibility.Range(row).end);
  }
  return needed;
}

QueryTile FlashAttention::TileOf(const Prepared& prepared, const PackedHead& packed) const {
  return {.plan = prepared.plan,
          .sequence = &prepared.sequence,
          .rotations = &prepared.rotations,
          .packed = packed,
          .with_output = !prepared.is_linear()};
}

/// Appends the query tiles of a head. When the row range is short, heads of a head group share a
/// tile.
void FlashAttention::AppendTiles(const HeadWork& work, std::vector<QueryTile>& tiles) const {
  const RowRange& range = work.rows->range;
  const Prepared& prepared = prepared_[range.sequence];
  const FlashSequence& sequence = prepared.sequence;
  const bool is_done =
      prepared.is_linear() && !sequence.wants_weights() && sequence.log_sum_exp == nullptr;
  if (range.rows == 0 || is_done) {
    return;
  }
  const int64_t group = sequence.group();
  const int64_t heads_per_tile = std::min(group, kQueryTile / std::min(kQueryTile, range.rows));
  const int64_t end_head = (work.kv_head + 1) * group;
  for (int64_t head = work.kv_head * group; head < end_head;) {
    QueryTile tile = TileOf(prepared, HeadOf(prepared, work));
    tile.packs_keys = work.rows->packer == Packer::kTile;
    tile.first_head = head;
    tile.num_heads = std::min(heads_per_tile, end_head - head);
    // The last rows of a causal sequence cost most. They come first, so that the threads end at
    // about the same time.
    for (int64_t row = RoundUp(range.rows, kQueryTile) - kQueryTile; row >= 0; row -= kQueryTile) {
      tile.first_row = range.first_row + row;
      tile.rows_per_head = std::min(kQueryTile, range.rows - row);
      tiles.push_back(tile);
    }
    head += tile.num_heads;
  }
}

absl::Status FlashAttention::AttendTiles(std::span<const QueryTile> tiles, const Slices& slices) {
  const auto flops = [tiles](int64_t i) { return TileTasks::Flops(tiles[i]); };
  return RunInSlices(slices, std::ssize(tiles), flops, [&](int64_t first, int64_t end) {
    const KernelLease lease;
    TileTasks(tiles.subspan(first, end - first), workspace_).Run(tile_scratch_bytes_);
  });
}

absl::Status FlashAttention::AttendPass(std::span<HeadWork> pass, int64_t packed_bytes,
                                        const Slices& slices) {
  std::byte* memory = workspace_.Buffer(kPackedKeyValue, packed_bytes);
  std::vector<KeysToPack> packs;
  std::vector<QueryTile> tiles;
  tiles.reserve(pass.size());
  for (HeadWork& work : pass) {
    const RowRange& range = work.rows->range;
    const Prepared& p = prepared_[range.sequence];
    if (work.rows->packer == Packer::kStage) {
      const HeadLayout layout = p.LayOut(work.rows->keys);
      work.page = layout.At(memory);
      memory += layout.bytes;
      packs.push_back(KeysOf({range.sequence, 0, work.rows->keys}, work.kv_head, work.page));
    }
    AppendTiles(work, tiles);
  }
  RETURN_IF_ERROR(Pack(packs, slices));
  RETURN_IF_ERROR(AttendLinear(pass, slices));
  return AttendTiles(tiles, slices);
}

absl::Status FlashAttention::AttendInPasses(std::span<const StageRows> stage,
                                            const Slices& slices) {
  const int64_t most_bytes = std::max(kPackedBytes, kMostPadding * OwnBytes(stage));
  std::vector<HeadWork> pass;
  pass.reserve(
      std::min(kMostHeads, stage.size() * static_cast<size_t>(prepared_.front().num_kv_heads())));
  int64_t bytes = 0;
  for (const StageRows& rows : stage) {
    const Prepared& p = prepared_[rows.range.sequence];
    const int64_t head_bytes = rows.packer == Packer::kStage ? p.LayOut(rows.keys).bytes : 0;
    for (int64_t head = 0; head < p.num_kv_heads(); ++head) {
      if (!pass.empty() && (bytes + head_bytes > most_bytes || pass.size() == kMostHeads)) {
        RETURN_IF_ERROR(AttendPass(pass, bytes, slices));
        RETURN_IF_ERROR(CallYield(slices.yield));
        pass.clear();
        bytes = 0;
      }
      pass.push_back({&rows, head});
      bytes += head_bytes;
    }
  }
  return AttendPass(pass, bytes, slices);
}

HeadTiles FlashAttention::TilesOf(std::span<const StageRows> stage, int64_t index) const {
  const int64_t kv_heads = prepared_.front().num_kv_heads();
  const StageRows& rows = stage[index / kv_heads];
  return {&prepared_[rows.range.sequence].sequence, rows.range, index % kv_heads, rows.keys};
}

/// Packs the keys and values of key/value head `index`, counted through the whole stage, and
/// attends to them. With `prefetches` it prefetches what the next head needs.
void FlashAttention::PackAndAttendHead(std::span<const StageRows> stage, int64_t index,
                                       bool prefetches, int worker) {
  const HeadTiles tiles = TilesOf(stage, index);
  const bool is_last = index + 1 == std::ssize(stage) * prepared_.front().num_kv_heads();
  const HeadTiles next = is_last ? HeadTiles() : TilesOf(stage, index + 1);
  const Prepared& prepared = prepared_[tiles.range.sequence];
  const HeadLayout layout = prepared.LayOut(tiles.keys);
  std::byte* scratch = workspace_.Scratch(worker, layout.bytes + tile_scratch_bytes_);
  const HeadPage page = layout.At(scratch);
  QueryTile tile = TileOf(prepared, {.pages = &page, .storage = StorageOf(*prepared.plan)});
  tile.rows_per_head = std::min(tiles.range.rows, kQueryTile);  // the most of all tiles
  KeysToPack keys = KeysOf({tiles.range.sequence, 0, tiles.keys}, tiles.kv_head, page);
  keys.key_step = KeyStepOf(tile);
  attention::PackKeys(keys, scratch + layout.bytes);
  for (int64_t i = 0; i < tiles.size(); ++i) {
    UpcomingRows upcoming;
    if (prefetches) {
      upcoming = RowsAfter(tiles, i, is_last ? nullptr : &next);
      tile.upcoming = &upcoming;
    }
    tile.first_head = tiles.HeadOf(i);
    tile.first_row = tiles.FirstRowOf(i);
    tile.rows_per_head = tiles.RowsOf(i);
    AttendTile(tile, {scratch + layout.bytes});
  }
}

/// Estimates the number of floating point operations of `rows` for a key/value head.
double FlashAttention::HeadFlops(const StageRows& rows) const {
  const Prepared& p = prepared_[rows.range.sequence];
  const auto pairs =
      static_cast<double>(rows.range.rows * p.sequence.group()) * static_cast<double>(rows.keys);
  return 2.0 * pairs * static_cast<double>(p.plan->depth() + p.plan->value_width());
}

/// Whether each thread packs one head at a time into its own memory and attends to it at once,
/// while it is in the CPU cache, in place of Packer::kStage and kTile: when only these two pack,
/// packed heads are small, there are enough heads for all threads, and each fits into a slice.
bool FlashAttention::CanPackPrivately(std::span<const StageRows> stage,
                                      const Slices& slices) const {
  const int64_t threads = workspace_.pool().num_threads();
  const double most_flops = slices.flops / static_cast<double>(threads);
  int64_t num_heads = 0;
  for (const StageRows& rows : stage) {
    const Prepared& p = prepared_[rows.range.sequence];
    num_heads += p.num_kv_heads();
    if (!rows.packs() || p.is_linear() || p.LayOut(rows.keys).bytes > kPrivateHeadBytes ||
        (slices.yield != nullptr && HeadFlops(rows) > most_flops)) {
      return false;
    }
  }
  return threads == 1 || num_heads >= kHeadsPerThread * threads;
}

absl::Status FlashAttention::AttendPrivately(std::span<const StageRows> stage,
                                             const Slices& slices) {
  const int64_t kv_heads = prepared_.front().num_kv_heads();
  const bool prefetches = OwnBytes(stage) >= PrefetchedBytes();
  const auto flops = [&](int64_t i) { return HeadFlops(stage[i / kv_heads]); };
  return RunInSlices(slices, std::ssize(stage) * kv_heads, flops, [&](int64_t first, int64_t end) {
    const KernelLease lease;
    workspace_.pool().ParallelFor(end - first, [&](int64_t i, int worker) {
      const KernelRun run;
      PackAndAttendHead(stage, first + i, prefetches, worker);
    });
  });
}

/// Whether one tile alone needs each key, and may pack it (Packer::kTile). Packed by the stage, the
/// keys of a long head would be written to memory and read again for a few rows.
bool FlashAttention::TilesPack(const RowRange& range) const {
  const Prepared& p = prepared_[range.sequence];
  return !p.is_cached() && !p.is_linear() && range.rows * p.sequence.group() <= kQueryTile;
}

FlashAttention::StageRows FlashAttention::StageRowsOf(const RowRange& range) const {
  const Prepared& p = prepared_[range.sequence];
  if (p.is_cached()) {
    return {range, Packer::kCache};
  }
  if (p.keeps) {
    return {range, Packer::kPackKeys};
  }
  return {range, TilesPack(range) ? Packer::kTile : Packer::kStage, KeysNeeded(range)};
}

absl::Status FlashAttention::Attend(const Stage& stage, const Slices& slices) {
  std::vector<StageRows> rows;
  rows.reserve(std::distance(stage.begin(), stage.end()));
  for (const RowRange& range : stage) {
    rows.push_back(StageRowsOf(range));
  }
  return CanPackPrivately(rows, slices) ? AttendPrivately(rows, slices)
                                        : AttendInPasses(rows, slices);
}

absl::Status FlashAttention::AttendAll(const Slices& slices) {
  Stage all;
  for (int64_t i = 0; i < std::ssize(prepared_); ++i) {
    all.Add({i, 0, prepared_[i].sequence.query.tokens});
  }
  return Attend(all, slices);
}

}  // namespace attention
