// The packed keys and values of FlashAttention: who packs them, and which are kept from stage to
// stage.
#include <algorithm>

#include "core/kernels/attention/flash_attention.h"

namespace attention {
namespace {

constexpr BufferName kKeptKeyValue{"packed keys and values of several stages"};

/// The number of bytes of keys and values that are packed in the time of one floating point
/// operation: 64 MiB in a slice of kSliceFlops, about 20 ms of the memory bandwidth of a core.
constexpr double kPackedBytesPerFlop = (64 << 20) / kSliceFlops;

/// The number of keys that one task packs.
constexpr int64_t kPackRows = kKeyTile;

}  // namespace

int64_t FlashAttention::Prepared::OwnBytes() const {
  const int64_t width = sequence.key.head_dim + sequence.value.head_dim;
  return sequence.kv_len() * num_kv_heads() * width * static_cast<int64_t>(SizeOf(plan->compute()));
}

int64_t FlashAttention::Prepared::KeptBytes() const {
  const int64_t packed = is_cached() ? 0 : LayOut(sequence.kv_len()).bytes;
  return num_kv_heads() * (packed + (is_linear() ? LinearState::SizeBytes(*plan) : 0));
}

void FlashAttention::Keep(Prepared& prepared, std::byte* memory) const {
  const HeadLayout layout = prepared.LayOut(prepared.sequence.kv_len());
  for (int64_t head = 0; head < prepared.num_kv_heads(); ++head) {
    if (!prepared.is_cached()) {
      prepared.heads.push_back(layout.At(memory));
      memory += layout.bytes;
    }
    if (prepared.is_linear()) {
      prepared.states.emplace_back(*prepared.plan, memory);
      memory += LinearState::SizeBytes(*prepared.plan);
    }
  }
}

int64_t FlashAttention::LeastStageRows() const {
  constexpr int64_t kMostStages = 16;
  int64_t rows = kQueryTile;
  for (const Prepared& p : prepared_) {
    if (!p.is_cached() && !p.MayKeep()) {
      rows = std::max(rows, CeilDiv(p.sequence.query.tokens, kMostStages));
    }
  }
  return rows;
}

void FlashAttention::Expect(std::span<const Stage> stages) {
  std::vector<int64_t> num_stages(prepared_.size());
  std::vector<bool> tiles_pack(prepared_.size());
  for (const Stage& stage : stages) {
    for (const RowRange& range : stage) {
      ++num_stages[range.sequence];
      tiles_pack[range.sequence] = TilesPack(range);
    }
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    Prepared& p = prepared_[i];
    const bool is_wanted =
        num_stages[i] > 1 || (num_stages[i] == 1 && p.KeptBytes() > kPackedBytes && !tiles_pack[i]);
    p.keeps = is_wanted && p.MayKeep();
    bytes += p.keeps ? p.KeptBytes() : 0;
  }
  std::byte* memory = workspace_.Buffer(kKeptKeyValue, bytes);
  for (Prepared& p : prepared_) {
    if (p.keeps) {
      Keep(p, memory);
      memory += p.KeptBytes();
    }
  }
}

KeysToPack FlashAttention::KeysOf(const RowRange& keys, int64_t kv_head,
                                  const HeadPage& page) const {
  const Prepared& p = prepared_[keys.sequence];
  return {&p.sequence, p.plan, p.rotations.key, keys.first_row, keys.rows, kv_head, page};
}

absl::Status FlashAttention::Pack(std::span<const KeysToPack> heads, const Slices& slices) const {
  std::vector<KeysToPack> tasks;
  for (const KeysToPack& head : heads) {
    for (int64_t key = 0; key < head.count; key += kPackRows) {
      tasks.push_back(head);
      tasks.back().first_key += key;
      tasks.back().count = std::min(kPackRows, head.count - key);
    }
  }
  const auto flops = [&tasks](int64_t i) {
    const AttentionPlan& plan = *tasks[i].plan;
    const int64_t elements = tasks[i].count * (plan.depth() + plan.value_width());
    return static_cast<double>(elements * static_cast<int64_t>(SizeOf(plan.compute()))) /
           kPackedBytesPerFlop;
  };
  return RunInSlices(slices, std::ssize(tasks), flops, [&](int64_t first, int64_t end) {
    workspace_.pool().ParallelFor(end - first, [&](int64_t i, int worker) {
      attention::PackKeys(tasks[first + i], workspace_.Scratch(worker, tile_scratch_bytes_));
    });
  });
}

absl::Status FlashAttention::PackKeys(const Stage& stage, const Slices& slices) {
  std::vector<KeysToPack> heads;
  for (const RowRange& range : stage) {
    const Prepared& p = prepared_[range.sequence];
    for (int64_t head = 0; head < std::ssize(p.heads); ++head) {
      heads.push_back(KeysOf(range, head, p.heads[head]));
    }
  }
  return Pack(heads, slices);
}

/// Returns the size of the keys and values that the stage packs.
int64_t FlashAttention::OwnBytes(std::span<const StageRows> stage) const {
  int64_t own_bytes = 0;
  for (const StageRows& rows : stage) {
    const Prepared& p = prepared_[rows.range.sequence];
    own_bytes += rows.packs() ? p.OwnBytes() : 0;
  }
  return own_bytes;
}

}  // namespace attention
