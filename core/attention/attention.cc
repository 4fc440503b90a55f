#include "core/attention/attention.h"

#include <algorithm>
#include <vector>

#include "core/attention/resolve.h"
#include "core/kernels/attention/flash_attention.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const AttentionStages& stages) {
  RETURN_IF_ERROR(Validate(sequences));
  if (sequences.empty()) {
    return absl::OkStatus();
  }
  std::vector<FlashSequence> resolved;
  std::vector<int64_t> query_lens;
  Stage all_keys;
  for (const AttentionSequence& s : sequences) {
    all_keys.Add({std::ssize(resolved), 0, s.key.tokens});
    query_lens.push_back(s.query.tokens);
    resolved.push_back(Resolve(s));
  }
  FlashAttention flash(resolved, workspace);
  if (!stages.on_rows) {
    return flash.AttendAll(stages.slices);
  }
  const int64_t block_rows = std::max(stages.block_rows, flash.LeastStageRows());
  const std::vector<Stage> cut = CutIntoStages(query_lens, RoundUpToStage(block_rows));
  flash.Expect(cut);
  RETURN_IF_ERROR(flash.PackKeys(all_keys, stages.slices));
  for (const Stage& stage : cut) {
    RETURN_IF_ERROR(flash.Attend(stage, stages.slices));
    RETURN_IF_ERROR(Announce(stage, stages.on_rows));
  }
  return absl::OkStatus();
}

}  // namespace attention
