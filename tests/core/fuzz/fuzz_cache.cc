#include "tests/core/fuzz/fuzz_cache.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

KvCacheShape ShapeOf(const FuzzProblem& problem, const FuzzCase& way) {
  const reference::Extents& e = problem.extents();
  KvCacheShape shape{e.num_kv_heads, e.head_dim, e.value_head_dim, problem.storage()};
  shape.page_tokens = way.small_pages != 0 ? 512 : shape.page_tokens;
  return shape;
}

}  // namespace

FuzzCache::FuzzCache(FuzzProblem& problem, const FuzzCase& way)
    : problem_(problem), way_(way), shape_(ShapeOf(problem, way)), budget_(problem, way, shape_) {}

absl::StatusOr<KvCache> FuzzCache::NewCache() const {
  return KvCache::Create(shape_, budget_.memory());
}

absl::Status FuzzCache::Fill(KvCache& cache, int64_t end) const {
  const KeyPreparation preparation{problem_.options().key_norm, problem_.options().rotary};
  const int64_t step = way_.cache_cut == 0 ? std::max<int64_t>(end, 1) : way_.cache_cut;
  int64_t tried_block = -1;
  while (cache.length() < end) {
    const int64_t key = cache.length();
    if (way_.cache_budget != 0 && key / 64 != tried_block) {
      RETURN_IF_ERROR(budget_.TryRefusals(cache));
      tried_block = key / 64;
    }
    const int64_t count = std::min(step, end - key);
    RETURN_IF_ERROR(cache.Append(SliceTokens(problem_.key(), key, count),
                                 SliceTokens(problem_.value(), key, count), preparation));
  }
  return absl::OkStatus();
}

absl::Status FuzzCache::AppendUntil(int64_t end) { return Fill(*cache_, end); }

/// Appends tokens that are not numbers.
absl::Status FuzzCache::AppendJunk(KvCache& cache) const {
  const reference::Extents& e = problem_.extents();
  return cache.Append(
      problem_.NewRows(problem_.key_dtype(), {kJunkTokens, e.num_kv_heads, e.head_dim}, true),
      problem_.NewRows(problem_.key_dtype(), {kJunkTokens, e.num_kv_heads, e.value_head_dim},
                       true));
}

absl::Status FuzzCache::MakeForks(int64_t end) {
  RETURN_IF_ERROR(Fill(*cache_, end / 2));
  other_.emplace(std::move(*cache_));
  cache_.emplace(other_->Fork());
  RETURN_IF_ERROR(cache_->Truncate(end / 3));
  RETURN_IF_ERROR(Fill(*cache_, 2 * end / 3));
  RETURN_IF_ERROR(AppendJunk(*other_));
  other_.emplace(std::move(*cache_));
  cache_.emplace(other_->Fork());
  RETURN_IF_ERROR(other_->Truncate(end / 4));
  RETURN_IF_ERROR(AppendJunk(*other_));
  RETURN_IF_ERROR(AppendJunk(*cache_));
  RETURN_IF_ERROR(cache_->Truncate(2 * end / 3));
  return Fill(*cache_, end);
}

absl::Status FuzzCache::MakeShared(int64_t end) {
  ASSIGN_OR_RETURN(KvCache other, NewCache());
  other_.emplace(std::move(other));
  RETURN_IF_ERROR(Fill(*other_, end));
  RETURN_IF_ERROR(Fill(*cache_, end));
  cache_->SharePages(*other_, end);
  const std::shared_ptr<const void> freed = end == 0 ? nullptr : cache_->ShareLastPage(*other_);
  RETURN_IF_ERROR(AppendJunk(*other_));
  RETURN_IF_ERROR(AppendJunk(*cache_));
  return cache_->Truncate(end);
}

absl::Status FuzzCache::Make(int64_t end) {
  ASSIGN_OR_RETURN(KvCache cache, NewCache());
  cache_.emplace(std::move(cache));
  switch (static_cast<CacheHistory>(way_.cache_history)) {
    case CacheHistory::kNone:
      break;
    case CacheHistory::kTruncated:
      RETURN_IF_ERROR(Fill(*cache_, end));
      RETURN_IF_ERROR(AppendJunk(*cache_));
      return cache_->Truncate(end);
    case CacheHistory::kForked:
      RETURN_IF_ERROR(Fill(*cache_, end / 2));
      other_.emplace(std::move(*cache_));
      cache_.emplace(other_->Fork());
      RETURN_IF_ERROR(AppendJunk(*other_));
      break;
    case CacheHistory::kForkOfFirst:
      RETURN_IF_ERROR(Fill(*cache_, end));
      RETURN_IF_ERROR(AppendJunk(*cache_));
      other_.emplace(std::move(*cache_));
      cache_.emplace(other_->ForkFirst(end));
      return absl::OkStatus();
    case CacheHistory::kEmptied:
      RETURN_IF_ERROR(AppendJunk(*cache_));
      RETURN_IF_ERROR(cache_->Truncate(0));
      break;
    case CacheHistory::kReserved:
      RETURN_IF_ERROR(cache_->Reserve(end + 100));
      break;
    case CacheHistory::kForksCut:
      return MakeForks(end);
    case CacheHistory::kShared:
      return MakeShared(end);
  }
  return Fill(*cache_, end);
}

}  // namespace attention
