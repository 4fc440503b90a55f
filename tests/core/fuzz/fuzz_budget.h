// The memory budget of a random case's caches, and appends that it refuses.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/attention/kv_cache.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_problem.h"

namespace attention {

/// The tokens that a history appends and removes again.
inline constexpr int64_t kJunkTokens = 70;
/// More tokens than any budget has room for.
inline constexpr int64_t kTooManyTokens = int64_t{1} << 26;

class FuzzBudget {
 public:
  /// Makes what the history of the case needs until all keys are in a cache of `shape`; of a case
  /// without a budget nothing. Borrows the problem and the case.
  FuzzBudget(FuzzProblem& problem, const FuzzCase& way, const KvCacheShape& shape);

  /// Null: without a budget.
  std::shared_ptr<KvMemory> memory() const { return memory_; }
  /// Reserves or appends and removes tokens for which there may be room, and then too many. An
  /// error unless what is refused leaves the cache as it was.
  absl::Status TryRefusals(KvCache& cache) const;
  /// Runs what the budget must refuse. An error unless it does, and the cache is as it was.
  absl::Status ExpectRefusal(const KvCache& cache, absl::FunctionRef<absl::Status()> run) const;

 private:
  HeadsView RepeatedNaN(int64_t tokens, int64_t width) const;
  absl::Status AppendJunk(KvCache& cache, int64_t tokens) const;
  absl::Status TryToAppend(KvCache& cache, int64_t tokens) const;

  FuzzProblem& problem_;
  const FuzzCase& way_;
  std::shared_ptr<KvMemory> memory_;
};

}  // namespace attention
