#include "core/attention/attention.h"

#include <algorithm>
#include <vector>

#include "core/attention/resolve.h"
#include "core/kernels/attention/flash_attention.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const RowsCallback& on_rows,
                                       int64_t block_rows) {
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
  if (!on_rows) {
    flash.AttendAll();
    return absl::OkStatus();
  }
  const std::vector<Stage> stages =
      CutIntoStages(query_lens, RoundUpToStage(std::max(block_rows, flash.LeastStageRows())));
  flash.Expect(stages);
  flash.PackKeys(all_keys);
  for (const Stage& stage : stages) {
    flash.Attend(stage);
    if (!Announce(stage, on_rows)) {
      return absl::CancelledError("cancelled between row blocks");
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
