#include "tests/core/fuzz/fuzz_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The tokens that are tried at most where there may be room for them.
constexpr int64_t kMostTried = 700;

/// The bytes that the caches of a history hold at most, with `keys` keys at the end.
size_t MostBytes(CacheHistory history, const KvCacheShape& shape, int64_t keys) {
  const auto bytes = [&](int64_t tokens) { return KvCache::SizeBytes(shape, tokens); };
  switch (history) {
    case CacheHistory::kNone:
      return bytes(keys);
    case CacheHistory::kTruncated:
      return bytes(keys + kJunkTokens);
    case CacheHistory::kEmptied:
      return std::max(bytes(keys), bytes(kJunkTokens));
    case CacheHistory::kReserved:
      return bytes(keys + 100);
    default:
      // Two caches, each beside pages that it replaces, which tried tokens may have made larger.
      return 4 * bytes(keys + kJunkTokens + kMostTried);
  }
}

}  // namespace

FuzzBudget::FuzzBudget(FuzzProblem& problem, const FuzzCase& way, const KvCacheShape& shape)
    : problem_(problem), way_(way) {
  if (way.cache_budget != 0) {
    const auto history = static_cast<CacheHistory>(way.cache_history);
    memory_ = std::make_shared<KvMemory>(MostBytes(history, shape, problem.extents().kv_len));
  }
}

/// Tokens of NaN that all lie at the same place.
HeadsView FuzzBudget::RepeatedNaN(int64_t tokens, int64_t width) const {
  HeadsView view =
      problem_.NewRows(problem_.key_dtype(), {1, problem_.extents().num_kv_heads, width}, true);
  view.tokens = tokens;
  view.token_stride = 0;
  return view;
}

absl::Status FuzzBudget::AppendJunk(KvCache& cache, int64_t tokens) const {
  const reference::Extents& e = problem_.extents();
  return cache.Append(RepeatedNaN(tokens, e.head_dim), RepeatedNaN(tokens, e.value_head_dim));
}

absl::Status FuzzBudget::ExpectRefusal(const KvCache& cache,
                                       absl::FunctionRef<absl::Status()> run) const {
  const int64_t length = cache.length();
  const size_t bytes = cache.size_bytes();
  const size_t used = memory_->used_bytes();
  const absl::Status status = run();
  if (status.code() != absl::StatusCode::kResourceExhausted) {
    return absl::InternalError(
        absl::StrCat("expected a refusal by the budget of the cache, found ", status.ToString()));
  }
  const bool is_same =
      cache.length() == length && cache.size_bytes() == bytes && memory_->used_bytes() == used;
  return is_same
             ? absl::OkStatus()
             : absl::InternalError(
                   "expected the cache as it was before what its budget refused, found another");
}

/// Appends tokens and removes them again, if there is room.
absl::Status FuzzBudget::TryToAppend(KvCache& cache, int64_t tokens) const {
  const int64_t length = cache.length();
  absl::Status status;
  const absl::Status refusal =
      ExpectRefusal(cache, [&] { return status = AppendJunk(cache, tokens); });
  if (!status.ok()) {
    return refusal;
  }
  if (memory_->used_bytes() > memory_->max_bytes()) {
    return absl::InternalError(absl::StrCat("expected at most the ", memory_->max_bytes(),
                                            " bytes of the budget, found ", memory_->used_bytes()));
  }
  return cache.Truncate(length);
}

absl::Status FuzzBudget::TryRefusals(KvCache& cache) const {
  const int64_t tokens = 1 + (way_.seed + cache.length()) % kMostTried;
  if (tokens % 2 == 0) {
    RETURN_IF_ERROR(TryToAppend(cache, tokens));
  } else {
    cache.Reserve(tokens).IgnoreError();  // whose pages are left to the next append
  }
  RETURN_IF_ERROR(ExpectRefusal(cache, [&] { return AppendJunk(cache, kTooManyTokens); }));
  return ExpectRefusal(cache, [&] { return cache.Reserve(kTooManyTokens); });
}

}  // namespace attention
