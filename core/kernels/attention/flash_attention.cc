#include "core/kernels/attention/flash_attention.h"

#include <algorithm>
#include <utility>

#include "core/kernels/attention/attention_tile.h"
#include "core/kernels/attention/head_rows.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/tile_tasks.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

constexpr BufferName kPackedKeyValue{"packed keys and values"};

/// The number of keys that one task packs.
constexpr int64_t kPackRows = kKeyTile;

/// The largest size of a packed head that one thread packs and attends to at once, so that the head
/// stays in the L2 cache.
constexpr int64_t kPrivateHeadBytes = 512 << 10;
/// The least number of heads for each thread when a thread packs whole heads. With fewer, threads
/// would wait for the last head.
constexpr int64_t kHeadsPerThread = 6;

KeyValueStorage StorageOf(const AttentionPlan& plan) {
  return plan.compute() == Dtype::kBf16 ? KeyValueStorage::kBf16 : KeyValueStorage::kF32;
}

HeadLayout LayOutHead(const AttentionPlan& plan, int64_t keys) {
  return {StorageOf(plan), plan.depth(), plan.value_width(), RoundUp(keys, kKeyBlock)};
}

PackSource SourceRows(const HeadsView& view, int64_t first_row, int64_t rows, int64_t head) {
  const int64_t first = first_row * view.token_stride + head * view.head_stride;
  return {ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride, rows,
          view.head_dim};
}

}  // namespace

FlashAttention::FlashAttention(std::span<const FlashSequence> sequences, Workspace& workspace,
                               RotaryTables* rotations)
    : workspace_(workspace) {
  prepared_.reserve(sequences.size());
  for (const FlashSequence& s : sequences) {
    const AttentionPlan& plan = AttentionPlan::Get(s.compute, s.query.head_dim, s.value.head_dim);
    tile_scratch_bytes_ = std::max(
        tile_scratch_bytes_,
        TileScratchBytes(plan, s.cached.has_value() ? s.cached->storage : StorageOf(plan)));
    prepared_.push_back({s, &plan});
    Prepared& prepared = prepared_.back();
    for (int64_t head = 0; prepared.is_linear() && head < prepared.num_kv_heads(); ++head) {
      prepared.states.emplace_back(plan);
    }
  }
  MakeRotations(rotations == nullptr ? own_rotations_ : *rotations);
}

void FlashAttention::MakeRotations(RotaryTables& tables) {
  std::vector<SequenceRotations*> rotated;
  std::vector<RotaryTables::Range> ranges;
  for (Prepared& prepared : prepared_) {
    const FlashSequence& s = prepared.sequence;
    if (s.options.rotary.has_value()) {
      const Rotary* rotary = &*s.options.rotary;
      rotated.push_back(&prepared.rotations);
      ranges.push_back({rotary, s.query.head_dim, *s.options.query_offset, s.query.tokens});
      ranges.push_back({rotary, s.query.head_dim, 0, prepared.needs_packing() ? s.kv_len() : 0});
    }
  }
  const std::vector<const RotaryTable*> made = tables.Get(ranges, workspace_.pool());
  for (size_t i = 0; i < rotated.size(); ++i) {
    *rotated[i] = {made[2 * i], made[2 * i + 1]};
  }
}

PackedHead FlashAttention::HeadOf(const Prepared& prepared, int64_t kv_head) const {
  if (const auto& cached = prepared.sequence.cached; cached.has_value()) {
    // An empty cache has no pages, and nothing reads them.
    const HeadPage* pages = cached->pages.empty() ? nullptr : &cached->pages[kv_head];
    return {pages, cached->num_kv_heads, cached->blocks_per_page, cached->storage};
  }
  return {.pages = &prepared.heads[kv_head], .storage = StorageOf(*prepared.plan)};
}

/// Packs the keys and values of a row range. `scratch` has room for kKeyBlock prepared rows.
void FlashAttention::PackBlocks(const Prepared& prepared, const RowRange& range, int64_t kv_head,
                                const HeadPage& page, std::byte* scratch) const {
  const TileKernels& kernels = CurrentTileKernels();
  const FlashSequence& sequence = prepared.sequence;
  const AttentionPlan& plan = *prepared.plan;
  const size_t element_bytes = SizeOf(plan.compute());
  for (int64_t row = range.first_row; row < range.first_row + range.rows; row += kKeyBlock) {
    const int64_t rows = std::min(kKeyBlock, range.first_row + range.rows - row);
    const int64_t block = row / kKeyBlock;
    PackSource key = SourceRows(sequence.key, row, rows, kv_head);
    const HeadPreparation preparation{.norm = sequence.options.key_norm,
                                      .rotary = sequence.options.rotary,
                                      .table = prepared.rotations.key,
                                      .first_row = row,
                                      .has_feature_map = prepared.is_linear()};
    if (preparation.does_something()) {
      PrepareHeadRows(preparation, key, plan.compute(), scratch);
      key = {scratch, plan.compute(), key.cols, rows, key.cols};
    }
    kernels.pack_transposed(key, plan.compute(), plan.depth(),
                            page.keys + block * plan.key_block_elements() * element_bytes);
    page.values_are_finite[block] = kernels.pack_rows(
        SourceRows(sequence.value, row, rows, kv_head), plan.compute(), plan.value_width(),
        page.values + block * plan.value_block_elements() * element_bytes);
  }
}

void FlashAttention::ReserveHeads() {
  has_reserved_ = true;
  size_t bytes = 0;
  for (const Prepared& p : prepared_) {
    bytes +=
        p.needs_packing() ? p.num_kv_heads() * LayOutHead(*p.plan, p.sequence.kv_len()).bytes : 0;
  }
  std::byte* memory = workspace_.Buffer(kPackedKeyValue, bytes);
  for (Prepared& p : prepared_) {
    const HeadLayout layout = LayOutHead(*p.plan, p.sequence.kv_len());
    for (int64_t head = 0; p.needs_packing() && head < p.num_kv_heads(); ++head) {
      p.heads.push_back(layout.At(memory));
      memory += layout.bytes;
    }
  }
}

void FlashAttention::PackKeys(const Stage& stage) {
  if (!has_reserved_) {
    ReserveHeads();
  }
  std::vector<std::pair<RowRange, int64_t>> tasks;
  for (const RowRange& range : stage) {
    const Prepared& p = prepared_[range.sequence];
    for (int64_t head = 0; p.needs_packing() && head < p.num_kv_heads(); ++head) {
      for (int64_t row = 0; row < range.rows; row += kPackRows) {
        tasks.push_back(
            {{range.sequence, range.first_row + row, std::min(kPackRows, range.rows - row)}, head});
      }
    }
  }
  workspace_.pool().ParallelFor(std::ssize(tasks), [&](int64_t i, int worker) {
    const auto& [range, head] = tasks[i];
    const Prepared& prepared = prepared_[range.sequence];
    PackBlocks(prepared, range, head, prepared.heads[head],
               workspace_.Scratch(worker, tile_scratch_bytes_));
  });
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

/// Appends the query tiles of a row range. When the range is short, heads of a head group share a
/// tile.
void FlashAttention::AppendTiles(const RowRange& range, std::vector<QueryTile>& tiles) const {
  const Prepared& prepared = prepared_[range.sequence];
  const FlashSequence& sequence = prepared.sequence;
  const bool is_done =
      prepared.is_linear() && !sequence.wants_weights() && sequence.log_sum_exp == nullptr;
  if (range.rows == 0 || is_done) {
    return;
  }
  const int64_t group = sequence.group();
  const int64_t heads_per_tile = std::min(group, kQueryTile / std::min(kQueryTile, range.rows));
  for (int64_t head = 0; head < sequence.query.num_heads;) {
    const int64_t kv_head = head / group;
    QueryTile tile = TileOf(prepared, HeadOf(prepared, kv_head));
    tile.first_head = head;
    tile.num_heads = std::min(heads_per_tile, (kv_head + 1) * group - head);
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

/// Computes the outputs of linear attention. One thread computes all rows that the stage has of a
/// key/value head, in order, since the sums of a row continue those of the row before.
void FlashAttention::AttendLinear(const Stage& stage) {
  std::vector<std::pair<RowRange, int64_t>> tasks;
  for (const RowRange& range : stage) {
    const Prepared& p = prepared_[range.sequence];
    for (int64_t head = 0; p.is_linear() && head < p.num_kv_heads(); ++head) {
      tasks.push_back({range, head});
    }
  }
  workspace_.pool().ParallelFor(std::ssize(tasks), [&](int64_t i, int worker) {
    const KernelRun run;
    const auto& [range, kv_head] = tasks[i];
    Prepared& prepared = prepared_[range.sequence];
    const int64_t group = prepared.sequence.group();
    QueryTile tile = TileOf(prepared, HeadOf(prepared, kv_head));
    tile.first_head = kv_head * group;
    tile.first_row = range.first_row;
    prepared.states[kv_head].Attend(tile, range.rows, group,
                                    workspace_.Scratch(worker, tile_scratch_bytes_));
  });
}

void FlashAttention::Attend(const Stage& stage) {
  const KernelLease lease;
  AttendLinear(stage);
  std::vector<QueryTile> tiles;
  for (const RowRange& range : stage) {
    AppendTiles(range, tiles);
  }
  TileTasks(tiles, workspace_).Run(tile_scratch_bytes_);
}

void FlashAttention::PackAndAttendHead(const Prepared& prepared, int64_t kv_head, int worker) {
  const FlashSequence& sequence = prepared.sequence;
  const int64_t keys = sequence.kv_len();
  const HeadLayout layout = LayOutHead(*prepared.plan, keys);
  std::byte* scratch = workspace_.Scratch(worker, layout.bytes + tile_scratch_bytes_);
  const HeadPage page = layout.At(scratch);
  PackBlocks(prepared, {0, 0, keys}, kv_head, page, scratch + layout.bytes);
  QueryTile tile = TileOf(prepared, {.pages = &page, .storage = StorageOf(*prepared.plan)});
  const int64_t group = sequence.group();
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    tile.first_head = head;
    for (int64_t row = 0; row < sequence.query.tokens; row += kQueryTile) {
      tile.first_row = row;
      tile.rows_per_head = std::min(kQueryTile, sequence.query.tokens - row);
      AttendTile(tile, scratch + layout.bytes);
    }
  }
}

bool FlashAttention::CanPackPrivately() const {
  const int64_t threads = workspace_.pool().num_threads();
  int64_t num_heads = 0;
  for (const Prepared& p : prepared_) {
    num_heads += p.num_kv_heads();
    if (!p.needs_packing() || p.is_linear() ||
        LayOutHead(*p.plan, p.sequence.kv_len()).bytes > kPrivateHeadBytes) {
      return false;
    }
  }
  return threads == 1 || num_heads >= kHeadsPerThread * threads;
}

void FlashAttention::PackAndAttend() {
  if (CanPackPrivately()) {
    const KernelLease lease;
    const int64_t kv_heads = prepared_.front().num_kv_heads();
    workspace_.pool().ParallelFor(std::ssize(prepared_) * kv_heads, [&](int64_t i, int worker) {
      const KernelRun run;
      PackAndAttendHead(prepared_[i / kv_heads], i % kv_heads, worker);
    });
    return;
  }
  Stage all_keys;
  Stage all_rows;
  for (int64_t i = 0; i < std::ssize(prepared_); ++i) {
    all_keys.Add({i, 0, prepared_[i].sequence.kv_len()});
    all_rows.Add({i, 0, prepared_[i].sequence.query.tokens});
  }
  PackKeys(all_keys);
  Attend(all_rows);
}

}  // namespace attention
