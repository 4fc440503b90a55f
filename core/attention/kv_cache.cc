#include "core/attention/kv_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/kv_page.h"
#include "core/kernels/attention/attention_plan.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

static_assert(kDefaultPageTokens % kKeyTile == 0);

/// Returns the capacity of a page for `tokens` tokens: 2^n or 3 * 2^n key blocks, or `most`.
int64_t CapacityFor(int64_t tokens, int64_t most) {
  int64_t capacity = kKeyBlock;
  while (capacity < tokens) {
    const int64_t between = capacity / 2 * 3;
    capacity = capacity > kKeyBlock && between >= tokens ? between : capacity * 2;
  }
  return std::min(capacity, most);
}

}  // namespace

KvCache::KvCache(const KvCacheShape& shape, std::shared_ptr<KvMemory> memory)
    : shape_(shape), memory_(std::move(memory)) {}
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

absl::StatusOr<KvCache> KvCache::Create(const KvCacheShape& shape,
                                        std::shared_ptr<KvMemory> memory) {
  RETURN_IF_ERROR(ExpectWithin({"num_kv_heads"}, 1, int64_t{1} << 20, shape.num_kv_heads));
  RETURN_IF_ERROR(ExpectWithin({"head_dim"}, 1, kMaxHeadDim, shape.head_dim));
  RETURN_IF_ERROR(ExpectWithin({"value_head_dim"}, 1, kMaxHeadDim, shape.value_head_dim));
  constexpr int64_t kMaxPageTokens = int64_t{1} << 20;
  if (shape.page_tokens < 1 || shape.page_tokens > kMaxPageTokens ||
      shape.page_tokens % kKeyTile != 0) {  // a key tile lies in one page
    return WrongField({"page_tokens"},
                      absl::StrCat("a multiple of ", kKeyTile, ", at most ", kMaxPageTokens),
                      shape.page_tokens);
  }
  return KvCache(shape, memory != nullptr ? std::move(memory) : std::make_shared<KvMemory>());
}

size_t KvCache::size_bytes() const {
  size_t bytes = 0;
  for (const auto& page : pages_) {
    bytes += page->size_bytes();
  }
  return bytes + (tail_ == nullptr ? 0 : tail_->size_bytes());
}

size_t KvCache::SizeBytes(const KvCacheShape& shape, int64_t length) {
  const int64_t rest = length % shape.page_tokens;
  return static_cast<size_t>(length / shape.page_tokens) *
             KvPage::SizeBytes(shape, shape.page_tokens) +
         (rest == 0 ? 0 : KvPage::SizeBytes(shape, CapacityFor(rest, shape.page_tokens)));
}

const KvPage* KvCache::OwnPage(int64_t index, int64_t leaving) const {
  if (index == next_page() && tail_ != nullptr) {
    return tail_.get();
  }
  if (index >= std::ssize(pages_)) {
    return nullptr;
  }
  const bool is_own =
      index >= first_own_page_ || (index == next_page() && NumSharing(length_) <= 1 + leaving);
  return is_own ? pages_[index].get() : nullptr;
}

int64_t KvCache::CapacityToMake(int64_t index, int64_t end, const KvPage* own) const {
  const int64_t needed = std::min(end - index * page_tokens(), page_tokens());
  return own != nullptr && own->capacity() >= needed ? 0 : CapacityFor(needed, page_tokens());
}

KvGrowth KvCache::GrowthFor(int64_t tokens, int64_t leaving) const {
  KvGrowth growth;
  const int64_t end = EndWith(tokens);
  for (int64_t i = next_page(); i * page_tokens() < end; ++i) {
    const KvPage* replaced = OwnPage(i, leaving);
    if (const int64_t capacity = CapacityToMake(i, end, replaced); capacity > 0) {
      const auto bytes = static_cast<int64_t>(KvPage::SizeBytes(shape_, capacity));
      growth +=
          {bytes - (replaced == nullptr ? 0 : static_cast<int64_t>(replaced->size_bytes())), bytes};
    }
  }
  return growth;
}

absl::StatusOr<std::vector<std::shared_ptr<KvPage>>> KvCache::MakePages(int64_t tokens) {
  const int64_t end = EndWith(tokens);
  std::vector<std::shared_ptr<KvPage>> fresh;
  size_t replaced_bytes = 0;
  for (int64_t i = next_page(); i * page_tokens() < end; ++i) {
    const KvPage* replaced = OwnPage(i);
    const int64_t capacity = CapacityToMake(i, end, replaced);
    if (capacity == 0) {
      fresh.push_back(nullptr);
      continue;
    }
    replaced_bytes += replaced == nullptr ? 0 : replaced->size_bytes();
    fresh.push_back(KvPage::Make(shape_, capacity, memory_, replaced_bytes));
    if (fresh.back() == nullptr) {
      fresh.clear();  // which does not count in the error
      return absl::ResourceExhaustedError(
          absl::StrCat("key/value cache: expected room for ", tokens, " tokens more (",
                       KvPage::SizeBytes(shape_, capacity), " bytes a page), found ",
                       memory_->Describe(GrowthFor(tokens))));
    }
  }
  return fresh;
}

absl::Status KvCache::Reserve(int64_t tokens) {
  RETURN_IF_ERROR(ExpectWithin({"tokens"}, 0, kMaxPosition - length_, tokens));
  const int64_t first_page = next_page();
  if (first_page < first_own_page_ && tail_ == nullptr && OwnPage(first_page) != nullptr) {
    // Releasing a copy of the pointer synchronises with the release by the last sharer, so that its
    // reads happen before the writes from here on. use_count() alone orders nothing.
    std::shared_ptr<KvPage>(pages_[first_page]).reset();
    first_own_page_ = first_page;
  }
  ASSIGN_OR_RETURN(std::vector<std::shared_ptr<KvPage>> fresh, MakePages(tokens));
  const int64_t num_pages = std::max(std::ssize(pages_), first_page + std::ssize(fresh));
  pages_.reserve(num_pages);
  head_pages_.reserve(num_pages * shape_.num_kv_heads);
  // From here on nothing is allocated, so that an exception leaves the cache unchanged.
  const int64_t kept_tokens = length_ % page_tokens();
  if (kept_tokens > 0 && !fresh.empty() && fresh.front() != nullptr) {
    if (first_page < first_own_page_) {
      tail_ = std::move(fresh.front());
    } else {
      fresh.front()->CopyFrom(*pages_[first_page], kept_tokens);
    }
  }
  for (int64_t i = 0; i < std::ssize(fresh); ++i) {
    if (fresh[i] != nullptr) {
      SetPage(first_page + i, std::move(fresh[i]));
    }
  }
  return absl::OkStatus();
}

size_t KvCache::BytesToMove(int64_t tokens) const {
  const KvPage* own =
      length_ % page_tokens() > 0 && tail_ == nullptr ? OwnPage(next_page()) : nullptr;
  return own != nullptr && CapacityToMake(next_page(), EndWith(tokens), own) > 0 ? own->size_bytes()
                                                                                 : 0;
}

// REQUIRES: the vectors have room.
void KvCache::SetPage(int64_t index, std::shared_ptr<KvPage> page) {
  if (index == std::ssize(pages_)) {
    pages_.emplace_back();
    head_pages_.resize(pages_.size() * shape_.num_kv_heads);
  }
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    head_pages_[index * shape_.num_kv_heads + head] = page->Head(head);
  }
  pages_[index] = std::move(page);
  first_own_page_ = std::min(first_own_page_, index);
}

absl::Status KvCache::Truncate(int64_t length) {
  RETURN_IF_ERROR(ExpectWithin({"length"}, 0, length_, length));
  length_ = length;
  const int64_t num_pages = num_used_pages();
  pages_.resize(num_pages);
  head_pages_.resize(num_pages * shape_.num_kv_heads);
  first_own_page_ = std::min(first_own_page_, num_pages);
  tail_.reset();
  return absl::OkStatus();
}

KvCache KvCache::Fork() {
  first_own_page_ = num_used_pages();
  return ForkFirst(length_);
}

KvCache KvCache::ForkFirst(int64_t tokens) const {
  KvCache fork(shape_, memory_);
  fork.length_ = tokens;
  fork.first_own_page_ = fork.num_used_pages();
  fork.pages_.assign(pages_.begin(), pages_.begin() + fork.first_own_page_);
  fork.head_pages_.assign(head_pages_.begin(),
                          head_pages_.begin() + fork.first_own_page_ * shape_.num_kv_heads);
  return fork;
}

void KvCache::SharePage(KvCache& other, int64_t index) {
  const int64_t heads = shape_.num_kv_heads;
  pages_[index] = other.pages_[index];
  std::copy_n(other.head_pages_.begin() + index * heads, heads,
              head_pages_.begin() + index * heads);
  first_own_page_ = std::max(first_own_page_, index + 1);
  other.first_own_page_ = std::max(other.first_own_page_, index + 1);
}

void KvCache::SharePages(KvCache& other, int64_t tokens) {
  for (int64_t i = 0; i < tokens / page_tokens(); ++i) {
    SharePage(other, i);
  }
}

std::shared_ptr<const void> KvCache::ShareLastPage(KvCache& other) {
  const int64_t index = num_used_pages() - 1;
  std::shared_ptr<const void> own = pages_[index];
  SharePage(other, index);
  return own;
}

size_t KvCache::PageBytesOf(int64_t token) const {
  return pages_[token / page_tokens()]->size_bytes();
}

void KvCache::VisitPages(absl::FunctionRef<void(const void* page, size_t size_bytes)> visit) const {
  for (int64_t i = 0; i < num_used_pages(); ++i) {
    visit(pages_[i].get(), pages_[i]->size_bytes());
  }
}

CachedKeyValues KvCache::View() const {
  return {.storage = shape_.storage,
          .blocks_per_page = page_tokens() / kKeyBlock,
          .num_kv_heads = shape_.num_kv_heads,
          .pages = head_pages_};
}

}  // namespace attention
