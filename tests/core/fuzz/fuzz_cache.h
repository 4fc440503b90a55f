// A cache of a random case: what happened to it before it is read.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "core/attention/kv_cache.h"
#include "tests/core/fuzz/fuzz_budget.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_problem.h"

namespace attention {

/// Holds the first keys and values of a problem.
class FuzzCache {
 public:
  /// Borrows both.
  FuzzCache(FuzzProblem& problem, const FuzzCase& way);

  /// Makes the cache with keys up to `end`, by the history of the case.
  absl::Status Make(int64_t end);
  /// Appends the problem's keys up to `end`.
  absl::Status AppendUntil(int64_t end);
  const FuzzBudget& budget() const { return budget_; }
  /// REQUIRES: Make was called.
  KvCache& cache() { return *cache_; }

 private:
  absl::Status MakeForks(int64_t end);
  absl::Status MakeShared(int64_t end);
  absl::StatusOr<KvCache> NewCache() const;
  absl::Status Fill(KvCache& cache, int64_t end) const;
  absl::Status AppendJunk(KvCache& cache) const;

  FuzzProblem& problem_;
  const FuzzCase& way_;
  const KvCacheShape shape_;
  const FuzzBudget budget_;
  std::optional<KvCache> cache_;
  std::optional<KvCache> other_;  // which has pages of cache_, or had them
};

}  // namespace attention
