#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/attention/attention.h"
#include "core/attention/check_options.h"
#include "core/attention/kv_cache.h"
#include "core/kernels/attention/attention_plan.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

int64_t KeyHeads(const AttentionSequence& sequence) {
  return sequence.cache != nullptr ? sequence.cache->shape().num_kv_heads : sequence.key.num_heads;
}

/// Checks one sequence.
class Checker {
 public:
  Checker(int64_t index, const AttentionSequence& sequence) : index_(index), s_(sequence) {}

  absl::Status Extents() const;
  absl::Status LikeFirst(const AttentionSequence& first) const;
  absl::Status Options() const;

 private:
  CallField Field(const char* name) const { return {.name = name, .sequence = index_}; }
  absl::Status Equal(const char* what, int64_t expected, int64_t found) const {
    return ExpectEqual(Field(what), expected, found);
  }
  absl::Status InRange(const char* what, int64_t value) const {
    return ExpectWithin(Field(what), 1, kMaxHeadDim, value);
  }
  absl::Status NotNegative(const char* what, int64_t value) const {
    return value >= 0 ? absl::OkStatus() : WrongField(Field(what), "0 or more", value);
  }
  absl::Status CacheExtents() const;
  absl::Status KeyValueExtents() const;

  int64_t index_;
  const AttentionSequence& s_;
};

absl::Status Checker::CacheExtents() const {
  const KvCacheShape& shape = s_.cache->shape();
  RETURN_IF_ERROR(Equal("key tokens beside a cache", 0, s_.key.tokens));
  RETURN_IF_ERROR(Equal("value tokens beside a cache", 0, s_.value.tokens));
  RETURN_IF_ERROR(Equal("query head_dim", shape.head_dim, s_.query.head_dim));
  if (s_.query.num_heads % shape.num_kv_heads != 0) {
    return WrongField(Field("query num_heads"),
                      absl::StrCat("a multiple of the cache's ", shape.num_kv_heads),
                      s_.query.num_heads);
  }
  return absl::OkStatus();
}

absl::Status Checker::KeyValueExtents() const {
  if (s_.key.num_heads <= 0 || s_.query.num_heads % s_.key.num_heads != 0) {
    return WrongField(Field("query num_heads"),
                      absl::StrCat("a multiple of key num_heads ", s_.key.num_heads),
                      s_.query.num_heads);
  }
  RETURN_IF_ERROR(Equal("value num_heads", s_.key.num_heads, s_.value.num_heads));
  RETURN_IF_ERROR(Equal("key head_dim", s_.query.head_dim, s_.key.head_dim));
  RETURN_IF_ERROR(Equal("value tokens", s_.key.tokens, s_.value.tokens));
  RETURN_IF_ERROR(NotNegative("key tokens", s_.key.tokens));
  RETURN_IF_ERROR(InRange("head_dim", s_.query.head_dim));
  return InRange("value head_dim", s_.value.head_dim);
}

absl::Status Checker::Extents() const {
  if (s_.cache != nullptr) {
    RETURN_IF_ERROR(CacheExtents());
  } else {
    RETURN_IF_ERROR(KeyValueExtents());
  }
  RETURN_IF_ERROR(NotNegative("query tokens", s_.query.tokens));
  RETURN_IF_ERROR(Equal("output tokens", s_.query.tokens, s_.output.tokens));
  RETURN_IF_ERROR(Equal("output num_heads", s_.query.num_heads, s_.output.num_heads));
  const int64_t width = s_.cache != nullptr ? s_.cache->shape().value_head_dim : s_.value.head_dim;
  return Equal("output head_dim", width, s_.output.head_dim);
}

absl::Status Checker::LikeFirst(const AttentionSequence& first) const {
  RETURN_IF_ERROR(Equal("query num_heads", first.query.num_heads, s_.query.num_heads));
  RETURN_IF_ERROR(Equal("query head_dim", first.query.head_dim, s_.query.head_dim));
  RETURN_IF_ERROR(Equal("output head_dim", first.output.head_dim, s_.output.head_dim));
  RETURN_IF_ERROR(Equal("key num_heads", KeyHeads(first), KeyHeads(s_)));
  for (const HeadsView* view : {&s_.query, &s_.key, &s_.value}) {
    const bool is_there = view == &s_.query || s_.cache == nullptr;
    if (is_there && view->dtype != first.query.dtype) {
      return WrongField(
          Field("dtype"),
          absl::StrCat(std::string(Name(first.query.dtype)), " of query, key and value alike"),
          std::string(Name(view->dtype)));
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::Options() const {
  const int64_t kv_len = s_.cache != nullptr ? s_.cache->length() : s_.key.tokens;
  RETURN_IF_ERROR(ValidateTopWeights(s_.top_weights, kv_len, index_));
  const std::optional<OptionError> error =
      CheckOptions(s_.options, {.num_heads = s_.query.num_heads,
                                .head_dim = s_.query.head_dim,
                                .kv_len = kv_len,
                                .has_cache = s_.cache != nullptr});
  return error.has_value() ? StatusOf(*error, index_) : absl::OkStatus();
}

}  // namespace

absl::Status ValidateTopWeights(const TopWeights& top, int64_t kv_len, int64_t sequence) {
  if (top.k < 0) {
    return WrongField({.name = "top_weights.k", .sequence = sequence}, "0 or more", top.k);
  }
  constexpr int64_t kMostKeys = std::numeric_limits<int32_t>::max();
  if (top.k > 0 && kv_len > kMostKeys) {
    return WrongField({.name = "top_weights", .sequence = sequence},
                      absl::StrCat("at most ", kMostKeys, " keys to choose from"), kv_len);
  }
  return top.k == 0 || (top.weights != nullptr && top.keys != nullptr)
             ? absl::OkStatus()
             : WrongField({.name = "top_weights", .sequence = sequence},
                          "memory for weights and keys", "none");
}

absl::Status Validate(std::span<const AttentionSequence> sequences) {
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const Checker checker(i, sequences[i]);
    RETURN_IF_ERROR(checker.Extents());
    RETURN_IF_ERROR(checker.LikeFirst(sequences.front()));
    RETURN_IF_ERROR(checker.Options());
  }
  return absl::OkStatus();
}

}  // namespace attention
