// Runs a layer call in one stage, or in several stages between which the caller may compute
// something else.
#include <algorithm>
#include <limits>

#include "core/attention/resolve.h"
#include "core/kernels/tile/key_block.h"
#include "core/layers/layer_run.h"
#include "core/layers/rows_per_slice.h"
#include "core/runtime/round_up.h"
#include "core/runtime/status_macros.h"

namespace attention {

LayerFlops::LayerFlops(const MultiHeadAttentionShape& s) {
  const auto product = [](int64_t in, int64_t out) { return 2.0 * static_cast<double>(in * out); };
  query = product(s.d_model, s.num_heads * s.head_dim);
  key = product(s.d_memory, s.num_kv_heads * s.head_dim) +
        product(s.value_width(), s.num_kv_heads * s.value_head_dim);
  output = product(s.num_heads * s.value_head_dim, s.d_model);
  pair = product(s.num_heads, AttentionPlan::PaddedWidth(s.head_dim) +
                                  AttentionPlan::PaddedWidth(s.value_head_dim));
}

Stage LayerRun::RowRangesOf(int64_t first, int64_t end) const {
  Stage ranges;
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    const LayerSequence& sequence = call_.sequences[i];
    const int64_t from = std::max(first, sequence.first_row);
    const int64_t to = std::min(end, sequence.first_row + sequence.query_len);
    if (from < to) {
      ranges.Add({i, from - sequence.first_row, to - from});
    }
  }
  return ranges;
}

absl::Status LayerRun::CacheKeys(const Stage& ranges) {
  std::vector<CachedKeys::Rows> cached;
  cached.reserve(call_.sequences.size());
  for (const RowRange& range : ranges) {
    const LayerSequence& sequence = call_.sequences[range.sequence];
    const int64_t row = sequence.first_row + range.first_row;
    if (sequence.cache != nullptr) {
      cached.push_back({range.sequence, SliceTokens(key_, row, range.rows),
                        SliceTokens(value_, row, range.rows)});
    }
  }
  return cached_.Append(cached);
}

int64_t LayerRun::MaxKeys(int64_t sequence) const {
  const AttentionOptions& options = call_.sequences[sequence].options;
  const int64_t kv_len = cached_.Held(sequence) + FirstKey(sequence + 1) - FirstKey(sequence);
  return Visibility::MostKeysOfARow(options, kv_len, layer_.extra.count());
}

double LayerRun::RowFlops(int64_t sequence) const {
  return flops_.output + flops_.pair * static_cast<double>(MaxKeys(sequence));
}

bool LayerRun::FitsOneSlice() const {
  if (!call_.yield) {
    return true;
  }
  double flops = 0;
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    const double row = flops_.query + (is_fused_ ? flops_.key : 0) + RowFlops(i);
    flops += row * static_cast<double>(call_.sequences[i].query_len);
  }
  return flops <= SliceFlops(workspace_.pool(), call_.slice_flops);
}

absl::Status LayerRun::Run() {
  if (hidden_states_.rows == 0) {  // the sequences are all empty
    return absl::OkStatus();
  }
  if (!is_fused_) {
    RETURN_IF_ERROR(ProjectMemory());
  }
  return call_.on_rows || !FitsOneSlice() ? RunInStages() : RunInOneStage();
}

absl::Status LayerRun::RunInOneStage() {
  RETURN_IF_ERROR(CallYield(call_.yield));
  Project(0, hidden_states_.rows);
  const Stage all = RowRangesOf(0, hidden_states_.rows);
  RETURN_IF_ERROR(CacheKeys(all));
  RETURN_IF_ERROR(flash_->AttendAll());
  ProjectOutput(all);
  return absl::OkStatus();
}

int64_t LayerRun::NeededRows(const Stage& stage) const {
  int64_t needed = 0;
  for (const RowRange& range : stage) {
    const LayerSequence& sequence = call_.sequences[range.sequence];
    int64_t rows = range.first_row + range.rows;
    if (is_fused_) {
      // Packing continues from the first key of a key block.
      const int64_t keys = flash_->KeysNeeded(range) - cached_.Held(range.sequence);
      rows = std::max(rows, RoundUp(std::max<int64_t>(keys, 0), kKeyBlock));
    }
    needed = std::max(needed, sequence.first_row + std::min(rows, sequence.query_len));
  }
  return needed;
}

absl::Status LayerRun::ProjectUntil(int64_t needed) {
  const double row_flops = flops_.query + (is_fused_ ? flops_.key : 0);
  const int64_t slice = RowsPerSlice(row_flops, workspace_.pool(), call_.yield, call_.slice_flops);
  while (projected_rows_ < needed) {
    RETURN_IF_ERROR(CallYield(call_.yield));
    int64_t end = needed;
    if (needed - projected_rows_ > slice) {
      // Packing continues from the first key of a key block of the sequence that is divided.
      end = projected_rows_ + slice;
      end -= RowRangesOf(end, end + 1).front().first_row % kKeyBlock;
    }
    Project(projected_rows_, end);
    if (is_fused_) {
      const Stage ranges = RowRangesOf(projected_rows_, end);
      RETURN_IF_ERROR(flash_->PackKeys(ranges));
      RETURN_IF_ERROR(CacheKeys(ranges));
    }
    projected_rows_ = end;
  }
  return absl::OkStatus();
}

absl::Status LayerRun::PackMemoryKeys() {
  Stage all;
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    if (const int64_t keys = FirstKey(i + 1) - FirstKey(i); keys > 0) {
      all.Add({i, 0, keys});
    }
  }
  RETURN_IF_ERROR(CallYield(call_.yield));
  return flash_->PackKeys(all, slices());
}

Slices LayerRun::slices() const {
  return {call_.yield, SliceFlops(workspace_.pool(), call_.slice_flops)};
}

std::vector<Stage> LayerRun::Stages() const {
  std::vector<int64_t> lengths;
  std::vector<double> row_flops;
  for (int64_t i = 0; i < std::ssize(call_.sequences); ++i) {
    lengths.push_back(call_.sequences[i].query_len);
    row_flops.push_back(RowFlops(i));
  }
  StageLimits limits{.row_costs = row_flops};
  if (call_.on_rows) {
    limits.rows = RoundUpToStage(std::max(call_.block_rows, flash_->LeastStageRows()));
  }
  if (call_.yield) {
    limits.cost = SliceFlops(workspace_.pool(), call_.slice_flops);
  }
  return CutIntoStages(lengths, limits);
}

absl::Status LayerRun::RunInStages() {
  const std::vector<Stage> stages = Stages();
  flash_->Expect(stages);
  if (!is_fused_) {
    RETURN_IF_ERROR(PackMemoryKeys());
  }
  for (const Stage& stage : stages) {
    RETURN_IF_ERROR(ProjectUntil(NeededRows(stage)));
    RETURN_IF_ERROR(CallYield(call_.yield));
    RETURN_IF_ERROR(flash_->Attend(stage, slices()));
    ProjectOutput(stage);
    if (call_.on_rows) {
      RETURN_IF_ERROR(Announce(stage, call_.on_rows));
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
