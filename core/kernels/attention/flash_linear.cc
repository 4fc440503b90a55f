// Linear attention of a stage.
#include "core/kernels/attention/flash_attention.h"
#include "core/kernels/attention/tile_state.h"

namespace attention {

/// Computes the outputs of linear attention. One thread computes all rows that the stage has of a
/// key/value head, in order, since the sums of a row continue those of the row before. Sums that
/// are not kept begin with the first key again.
absl::Status FlashAttention::AttendLinear(std::span<const HeadWork> pass, const Slices& slices) {
  std::vector<const HeadWork*> works;
  for (const HeadWork& work : pass) {
    if (prepared_[work.rows->range.sequence].is_linear()) {
      works.push_back(&work);
    }
  }
  const auto flops = [&](int64_t i) { return LinearFlops(*works[i]); };
  return RunInSlices(slices, std::ssize(works), flops, [&](int64_t first, int64_t end) {
    const KernelLease lease;
    workspace_.pool().ParallelFor(end - first, [&](int64_t i, int worker) {
      const KernelRun run;
      AttendLinearHead(*works[first + i], worker);
    });
  });
}

/// Estimates the number of floating point operations of AttendLinearHead.
double FlashAttention::LinearFlops(const HeadWork& work) const {
  const RowRange& range = work.rows->range;
  const Prepared& p = prepared_[range.sequence];
  const int64_t keys = p.keeps ? range.rows : range.first_row + range.rows;
  const int64_t products = p.sequence.group() * range.rows + keys;
  return 2.0 * static_cast<double>(products * p.plan->depth() * p.plan->value_width());
}

void FlashAttention::AttendLinearHead(const HeadWork& work, int worker) {
  const RowRange& range = work.rows->range;
  Prepared& prepared = prepared_[range.sequence];
  const int64_t group = prepared.sequence.group();
  QueryTile tile = TileOf(prepared, HeadOf(prepared, work));
  tile.first_head = work.kv_head * group;
  tile.first_row = range.first_row;
  if (prepared.keeps) {
    prepared.states[work.kv_head].Attend(tile, range.rows, group,
                                         workspace_.Scratch(worker, tile_scratch_bytes_));
    return;
  }
  std::byte* scratch =
      workspace_.Scratch(worker, tile_scratch_bytes_ + LinearState::SizeBytes(*prepared.plan));
  LinearState(*prepared.plan, scratch + tile_scratch_bytes_)
      .Attend(tile, range.rows, group, scratch);
}

}  // namespace attention
