// The other sequences of a random case's batch.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_problem.h"

namespace attention {

/// The options of a mate of a kind, with heads of `dim`.
AttentionOptions MateOptions(int64_t kind, int64_t dim);

class FuzzMates {
 public:
  /// Borrows both.
  FuzzMates(FuzzProblem& problem, const FuzzCase& way) : problem_(problem), way_(way) {}

  absl::Status Make();
  /// Returns a batch of `sequence` and the mates. REQUIRES: Make was called.
  std::vector<AttentionSequence> BatchWith(const AttentionSequence& sequence) const;

 private:
  AttentionSequence MateOf(int64_t rows, int64_t keys);
  absl::Status MakeCachedMate();

  FuzzProblem& problem_;
  const FuzzCase& way_;
  std::vector<AttentionSequence> before_, behind_;
  std::optional<KvCache> cache_;
};

}  // namespace attention
