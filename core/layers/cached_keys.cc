#include "core/layers/cached_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/kv_append.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

std::string Describe(const KvCacheShape& shape) {
  return absl::StrCat(shape.num_kv_heads, " key/value heads of ", shape.head_dim, " and ",
                      shape.value_head_dim);
}

}  // namespace

absl::StatusOr<KvCacheShape> CacheShapeOf(const MultiHeadAttentionShape& s, int64_t extra_keys,
                                          KeyValueStorage storage) {
  if (extra_keys > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cache: expected a layer without extra keys, found ", extra_keys));
  }
  if (s.needs_memory()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cache: expected a layer whose keys and values come from rows of d_model ", s.d_model,
        ", found d_memory ", s.d_memory, " and d_memory_value ", s.value_width()));
  }
  return KvCacheShape{.num_kv_heads = s.num_kv_heads,
                      .head_dim = s.head_dim,
                      .value_head_dim = s.value_head_dim,
                      .storage = storage};
}

CachedKeys::CachedKeys(const MultiHeadAttentionShape& shape, int64_t extra_keys,
                       const LayerCall& call, ThreadPool& pool)
    : shape_(shape), extra_keys_(extra_keys), call_(call), pool_(pool) {
  for (int64_t i = 0; i < std::ssize(call.sequences); ++i) {
    const KvCache* cache = call.sequences[i].cache;
    held_.push_back(cache == nullptr ? 0 : cache->length());
    if (cache != nullptr) {
      cached_.push_back(i);
    }
  }
}

absl::Status CachedKeys::Check(int64_t sequence) const {
  const LayerSequence& s = call_.sequences[sequence];
  const CallField field = {.name = "cache", .sequence = sequence};
  if (call_.memory.has_value()) {
    return WrongField(field, "none beside a memory", "one");
  }
  ASSIGN_OR_RETURN(KvCacheShape shape, CacheShapeOf(shape_, extra_keys_, s.cache->shape().storage));
  shape.page_tokens = s.cache->shape().page_tokens;
  return shape == s.cache->shape() ? absl::OkStatus()
                                   : WrongField(field, Describe(shape), Describe(s.cache->shape()));
}

absl::Status CachedKeys::CheckShared() const {
  std::vector<std::pair<const KvCache*, int64_t>> owners;
  owners.reserve(cached_.size());
  for (const int64_t sequence : cached_) {
    owners.emplace_back(call_.sequences[sequence].cache, sequence);
  }
  std::sort(owners.begin(), owners.end());
  // The lowest sequence whose cache an earlier sequence has, and that earlier one. They do not
  // depend on the addresses of the caches.
  std::optional<std::pair<int64_t, int64_t>> found;
  for (size_t i = 1; i < owners.size(); ++i) {
    const int64_t sequence = owners[i].second;
    if (owners[i].first == owners[i - 1].first && (!found || sequence < found->first)) {
      found = {sequence, owners[i - 1].second};
    }
  }
  return found.has_value()
             ? WrongField({.name = "cache", .sequence = found->first}, "a cache of its own",
                          absl::StrCat("that of sequence ", found->second))
             : absl::OkStatus();
}

absl::Status CachedKeys::Reserve() const {
  for (const int64_t sequence : cached_) {
    RETURN_IF_ERROR(Check(sequence));
  }
  RETURN_IF_ERROR(CheckShared());
  return ForAll(std::ssize(cached_), pool_, [&](int64_t i) {
    const LayerSequence& s = call_.sequences[cached_[i]];
    return s.cache->Reserve(s.query_len);
  });
}

std::vector<const RotaryTable*> CachedKeys::RotationsOf(std::span<const Rows> ranges,
                                                        RotaryTables& tables) const {
  std::vector<RotaryTables::Range> rotated;
  for (const Rows& range : ranges) {
    const LayerSequence& s = call_.sequences[range.sequence];
    if (s.options.rotary.has_value()) {
      rotated.push_back({&*s.options.rotary, shape_.head_dim, s.cache->length(), range.key.tokens});
    }
  }
  const std::vector<const RotaryTable*> made = tables.Get(rotated, pool_);
  std::vector<const RotaryTable*> result;
  result.reserve(ranges.size());
  auto next = made.begin();
  for (const Rows& range : ranges) {
    result.push_back(call_.sequences[range.sequence].options.rotary.has_value() ? *next++
                                                                                : nullptr);
  }
  return result;
}

absl::Status CachedKeys::Append(std::span<const Rows> ranges) const {
  if (ranges.empty()) {
    return absl::OkStatus();
  }
  RotaryTables own_rotations;
  const std::vector<const RotaryTable*> rotations =
      RotationsOf(ranges, call_.rotations == nullptr ? own_rotations : *call_.rotations);
  std::vector<KvAppend> appends;
  appends.reserve(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const LayerSequence& s = call_.sequences[ranges[i].sequence];
    appends.emplace_back(*s.cache, ranges[i].key, ranges[i].value,
                         KeyPreparation{.norm = s.options.key_norm, .rotary = s.options.rotary},
                         rotations[i]);
  }
  RETURN_IF_ERROR(
      ForAll(std::ssize(appends), pool_, [&](int64_t i) { return appends[i].Begin(); }));
  const int64_t heads = shape_.num_kv_heads;
  pool_.ParallelFor(std::ssize(appends) * heads,
                    [&](int64_t i, int /*worker*/) { appends[i / heads].WriteHead(i % heads); });
  for (KvAppend& append : appends) {
    append.Finish();
  }
  return absl::OkStatus();
}

}  // namespace attention
