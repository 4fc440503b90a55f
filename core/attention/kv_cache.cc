#include "core/attention/kv_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/attention.h"
#include "core/attention/kv_page.h"
#include "core/kernels/head_rows.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status Expect(const char* what, int64_t expected, int64_t found) {
  if (expected == found) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", expected, ", found ", found));
}

absl::Status CheckExtent(const char* what, int64_t value, int64_t most) {
  if (value < 1 || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected 1 to ", most, ", found ", value));
  }
  return absl::OkStatus();
}

/// Tokens that a page of `tokens` has room for: 2^n or 3 * 2^n blocks.
int64_t CapacityFor(int64_t tokens) {
  int64_t capacity = kKeyBlock;
  while (capacity < tokens) {
    const int64_t between = capacity / 2 * 3;
    capacity = capacity > kKeyBlock && between >= tokens ? between : capacity * 2;
  }
  return capacity;
}

}  // namespace

KvCache::KvCache(const KvCacheShape& shape, std::shared_ptr<KvMemory> memory)
    : shape_(shape), memory_(std::move(memory)) {}
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

absl::StatusOr<KvCache> KvCache::Create(const KvCacheShape& shape,
                                        std::shared_ptr<KvMemory> memory) {
  RETURN_IF_ERROR(CheckExtent("num_kv_heads", shape.num_kv_heads, int64_t{1} << 20));
  RETURN_IF_ERROR(CheckExtent("head_dim", shape.head_dim, kMaxHeadDim));
  RETURN_IF_ERROR(CheckExtent("value_head_dim", shape.value_head_dim, kMaxHeadDim));
  return KvCache(shape, memory != nullptr ? std::move(memory) : std::make_shared<KvMemory>());
}

size_t KvCache::size_bytes() const {
  size_t bytes = 0;
  for (const auto& page : pages_) {
    bytes += page->size_bytes();
  }
  return bytes;
}

size_t KvCache::SizeBytes(const KvCacheShape& shape, int64_t length) {
  const int64_t rest = length % kPageTokens;
  return static_cast<size_t>(length / kPageTokens) * KvPage::SizeBytes(shape, kPageTokens) +
         (rest == 0 ? 0 : KvPage::SizeBytes(shape, CapacityFor(rest)));
}

absl::Status KvCache::Reserve(int64_t tokens) {
  const int64_t end = length_ + tokens;
  const int64_t kept_pages = length_ / kPageTokens;
  const int64_t kept_tokens = length_ % kPageTokens;
  std::vector<std::shared_ptr<KvPage>> fresh;
  int64_t first_fresh = kept_pages;
  const bool last_is_ours = kept_tokens > 0 && kept_pages >= first_own_page_;
  if (last_is_ours &&
      pages_[kept_pages]->capacity() >= std::min(end - kept_pages * kPageTokens, kPageTokens)) {
    ++first_fresh;  // the last page is ours and has room
  }
  for (int64_t page = first_fresh; page * kPageTokens < end; ++page) {
    const int64_t capacity = CapacityFor(std::min(end - page * kPageTokens, kPageTokens));
    const bool replaces = last_is_ours && page == kept_pages;
    fresh.push_back(
        KvPage::Make(shape_, capacity, memory_, replaces ? pages_[page].get() : nullptr));
    if (fresh.back() == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "key/value cache: expected room for ", tokens, " tokens more (",
          KvPage::SizeBytes(shape_, capacity), " bytes a page), found ",
          memory_->max_bytes() - memory_->used_bytes(), " of ", memory_->max_bytes(), " bytes"));
    }
  }
  if (first_fresh == kept_pages && kept_tokens > 0) {
    fresh.front()->CopyFrom(*pages_[kept_pages], kept_tokens);
  }
  pages_.resize(first_fresh);
  head_pages_.resize(first_fresh * shape_.num_kv_heads);
  first_own_page_ = std::min(first_own_page_, first_fresh);
  for (std::shared_ptr<KvPage>& page : fresh) {
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      head_pages_.push_back(page->Head(head));
    }
    pages_.push_back(std::move(page));
  }
  return absl::OkStatus();
}

struct KvCache::Rows {
  const HeadsView& view;
  const std::optional<RmsNorm>& norm;
  const std::optional<Rotary>& rotary;
  const RotaryTable& table;
  bool is_key;
};

void KvCache::WriteRows(const Rows& rows, int64_t head) {
  const HeadsView& view = rows.view;
  const Dtype dtype = shape_.storage == KeyValueStorage::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  AlignedBuffer prepared(kKeyBlock * view.head_dim * SizeOf(dtype));
  for (int64_t row = 0; row < view.tokens;) {
    const int64_t token = length_ + row;
    const int64_t in_page = token % kPageTokens;
    const int64_t count = std::min(kKeyBlock - token % kKeyBlock, view.tokens - row);
    const int64_t first = row * view.token_stride + head * view.head_stride;
    PrepareHeadRows(
        {.norm = rows.norm, .rotary = rows.rotary, .table = &rows.table, .first_row = row},
        {ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride, count,
         view.head_dim},
        dtype, prepared.data());
    const KvRowWriter writer(shape_, head_pages_[token / kPageTokens * shape_.num_kv_heads + head]);
    if (!rows.is_key) {
      writer.WriteValues(prepared.data(), in_page, count);
    } else {
      if (in_page % kKeyBlock == 0) {
        writer.ClearBlock(in_page);  // keys come before values
      }
      writer.WriteKeys(prepared.data(), in_page, count);
    }
    row += count;
  }
}

absl::Status KvCache::Append(const HeadsView& key, const HeadsView& value,
                             const KeyPreparation& preparation) {
  if (key.tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("key tokens: expected 0 or more, found ", key.tokens));
  }
  RETURN_IF_ERROR(Expect("value tokens", key.tokens, value.tokens));
  RETURN_IF_ERROR(Expect("key num_heads", shape_.num_kv_heads, key.num_heads));
  RETURN_IF_ERROR(Expect("value num_heads", shape_.num_kv_heads, value.num_heads));
  RETURN_IF_ERROR(Expect("key head_dim", shape_.head_dim, key.head_dim));
  RETURN_IF_ERROR(Expect("value head_dim", shape_.value_head_dim, value.head_dim));
  RotaryTable table;
  if (preparation.rotary.has_value()) {
    RETURN_IF_ERROR(ValidateRotary(*preparation.rotary, shape_.head_dim));
    table = RotaryTable(*preparation.rotary, shape_.head_dim, length_, key.tokens);
  }
  RETURN_IF_ERROR(Reserve(key.tokens));
  const std::optional<RmsNorm> no_norm;
  const std::optional<Rotary> no_rotary;
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    WriteRows({key, preparation.norm, preparation.rotary, table, /*is_key=*/true}, head);
    WriteRows({value, no_norm, no_rotary, table, /*is_key=*/false}, head);
  }
  length_ += key.tokens;
  return absl::OkStatus();
}

absl::Status KvCache::Truncate(int64_t length) {
  if (length < 0 || length > length_) {
    return absl::InvalidArgumentError(
        absl::StrCat("length: expected 0 to ", length_, ", found ", length));
  }
  length_ = length;
  const int64_t num_pages = (length + kPageTokens - 1) / kPageTokens;
  pages_.resize(num_pages);
  head_pages_.resize(num_pages * shape_.num_kv_heads);
  first_own_page_ = std::min(first_own_page_, num_pages);
  return absl::OkStatus();
}

KvCache KvCache::Fork() {
  KvCache fork(shape_, memory_);
  first_own_page_ = std::ssize(pages_);
  fork.length_ = length_;
  fork.pages_ = pages_;
  fork.first_own_page_ = first_own_page_;
  fork.head_pages_ = head_pages_;
  return fork;
}

CachedKeyValues KvCache::View() const {
  return {.storage = shape_.storage,
          .blocks_per_page = kPageTokens / kKeyBlock,
          .num_kv_heads = shape_.num_kv_heads,
          .pages = head_pages_};
}

}  // namespace attention
