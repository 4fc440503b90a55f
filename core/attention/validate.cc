#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

/// Errors of one sequence.
class Checker {
 public:
  Checker(int64_t index, const AttentionSequence& sequence)
      : index_(index), s_(sequence), o_(sequence.options) {}

  absl::Status Extents() const;
  absl::Status LikeFirst(const AttentionSequence& first) const;
  absl::Status Positions() const;
  absl::Status Scores() const;
  absl::Status Preparation() const;
  absl::Status SimilarityTakes() const;

 private:
  absl::Status Error(absl::string_view what, absl::string_view expected,
                     const absl::AlphaNum& found) const {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", index_, ": ", what, ": expected ",
                                                   expected, ", found ", found.Piece()));
  }
  absl::Status Equal(const char* what, int64_t expected, int64_t found) const {
    return expected == found ? absl::OkStatus() : Error(what, absl::StrCat(expected), found);
  }
  absl::Status InRange(const char* what, int64_t value) const {
    return value >= 1 && value <= kMaxHeadDim
               ? absl::OkStatus()
               : Error(what, absl::StrCat("1 to ", kMaxHeadDim), value);
  }
  absl::Status NotNegative(const char* what, int64_t value) const {
    return value >= 0 ? absl::OkStatus() : Error(what, "0 or more", value);
  }
  absl::Status WithinPositions(const char* what, int64_t value) const {
    return value >= -kMaxPosition && value <= kMaxPosition
               ? absl::OkStatus()
               : Error(what, absl::StrCat(-kMaxPosition, " to ", kMaxPosition), value);
  }
  absl::Status OnePerHead(const char* what, size_t count) const {
    return count == 0 ? absl::OkStatus()
                      : Equal(what, s_.query.num_heads, static_cast<int64_t>(count));
  }
  absl::Status Norm(const char* what, const std::optional<RmsNorm>& norm) const {
    return !norm.has_value() || (norm->epsilon >= 0 && std::isfinite(norm->epsilon))
               ? absl::OkStatus()
               : Error(what, "0 or more", norm->epsilon);
  }
  int64_t kv_len() const { return s_.cache != nullptr ? s_.cache->length() : s_.key.tokens; }
  absl::Status CacheExtents() const;
  absl::Status KeyValueExtents() const;

  int64_t index_;
  const AttentionSequence& s_;
  const AttentionOptions& o_;
};

absl::Status Checker::CacheExtents() const {
  const KvCacheShape& shape = s_.cache->shape();
  RETURN_IF_ERROR(Equal("key tokens beside a cache", 0, s_.key.tokens));
  RETURN_IF_ERROR(Equal("value tokens beside a cache", 0, s_.value.tokens));
  RETURN_IF_ERROR(Equal("query head_dim", shape.head_dim, s_.query.head_dim));
  if (s_.query.num_heads % shape.num_kv_heads != 0) {
    return Error("query num_heads", absl::StrCat("a multiple of the cache's ", shape.num_kv_heads),
                 s_.query.num_heads);
  }
  return absl::OkStatus();
}

absl::Status Checker::KeyValueExtents() const {
  if (s_.key.num_heads <= 0 || s_.query.num_heads % s_.key.num_heads != 0) {
    return Error("query num_heads", absl::StrCat("a multiple of key num_heads ", s_.key.num_heads),
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
  if (s_.cache == nullptr && first.cache == nullptr) {
    RETURN_IF_ERROR(Equal("key num_heads", first.key.num_heads, s_.key.num_heads));
  }
  for (const HeadsView* view : {&s_.query, &s_.key, &s_.value}) {
    const bool is_there = view == &s_.query || s_.cache == nullptr;
    if (is_there && view->dtype != first.query.dtype) {
      return Error(
          "dtype",
          absl::StrCat(std::string(Name(first.query.dtype)), " of query, key and value alike"),
          std::string(Name(view->dtype)));
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::Positions() const {
  RETURN_IF_ERROR(NotNegative("window", o_.window));
  RETURN_IF_ERROR(NotNegative("window_right", o_.window_right));
  RETURN_IF_ERROR(NotNegative("prefix", o_.prefix));
  RETURN_IF_ERROR(NotNegative("top_weights.k", s_.top_weights.k));
  if (s_.top_weights.k > 0 &&
      (s_.top_weights.weights == nullptr || s_.top_weights.keys == nullptr)) {
    return Error("top_weights", "memory for weights and keys", "none");
  }
  RETURN_IF_ERROR(WithinPositions("query_offset", o_.query_offset.value_or(0)));
  int64_t last = -1;
  for (const int64_t token : o_.global_tokens) {
    if (token <= last || token >= kv_len()) {
      return Error("global_tokens", absl::StrCat("ascending positions from 0 to ", kv_len() - 1),
                   token);
    }
    last = token;
  }
  return absl::OkStatus();
}

absl::Status Checker::Scores() const {
  if (o_.scale.has_value() && !std::isfinite(*o_.scale)) {
    return Error("scale", "a finite number", *o_.scale);
  }
  if (o_.softcap < 0 || !std::isfinite(o_.softcap)) {
    return Error("softcap", "0 or a positive number", o_.softcap);
  }
  RETURN_IF_ERROR(OnePerHead("alibi_slopes", o_.alibi_slopes.size()));
  for (const float slope : o_.alibi_slopes) {
    if (!std::isfinite(slope)) {
      return Error("alibi_slopes", "finite numbers", slope);
    }
  }
  return OnePerHead("sinks", o_.sinks.size());
}

absl::Status Checker::Preparation() const {
  RETURN_IF_ERROR(Norm("query_norm.epsilon", o_.query_norm));
  RETURN_IF_ERROR(Norm("key_norm.epsilon", o_.key_norm));
  if (!o_.rotary.has_value()) {
    return absl::OkStatus();
  }
  const absl::Status status = ValidateRotary(*o_.rotary, s_.query.head_dim);
  return status.ok() ? status
                     : absl::InvalidArgumentError(
                           absl::StrCat("sequence ", index_, ": ", status.message()));
}

absl::Status Checker::SimilarityTakes() const {
  if (IsRegression(o_.similarity)) {
    if (!IsPositive(o_.bandwidth)) {
      return Error("bandwidth", "a positive number", o_.bandwidth);
    }
  }
  struct Option {
    const char* name;
    bool is_set;
    bool is_for_linear;
    bool is_for_regression;
  };
  const Option options[] = {
      {"scale", o_.scale.has_value(), false, false},
      {"softcap", o_.softcap > 0, false, false},
      {"alibi_slopes", !o_.alibi_slopes.empty(), false, false},
      {"bias", o_.bias.data != nullptr, false, false},
      {"sinks", !o_.sinks.empty(), false, false},
      {"window", o_.window > 0, false, true},
      {"window_right", o_.window_right > 0, false, true},
      {"prefix", o_.prefix > 0, false, true},
      {"global_tokens", !o_.global_tokens.empty(), false, true},
      {"mask", o_.mask.data != nullptr, false, true},
      {"cache", s_.cache != nullptr, false, true},
  };
  for (const Option& option : options) {
    const bool is_linear = o_.similarity == Similarity::kLinear;
    const bool is_allowed = is_linear ? option.is_for_linear : option.is_for_regression;
    if (option.is_set && !is_allowed && o_.similarity != Similarity::kDotProduct) {
      return Error(option.name,
                   is_linear ? "none with linear attention" : "none with kernel regression", "one");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRotary(const Rotary& rotary, int64_t head_dim) {
  const int64_t dim = rotary.dim == 0 ? head_dim : rotary.dim;
  const bool is_llama3 = rotary.scaling == Rotary::Scaling::kLlama3;
  struct Rule {
    bool is_broken;
    std::string text;
  };
  const Rule rules[] = {
      {dim < 2 || dim % 2 != 0 || dim > head_dim,
       absl::StrCat("dim: expected an even number of the head's ", head_dim, " elements, found ",
                    dim)},
      {!IsPositive(rotary.base),
       absl::StrCat("base: expected a positive number, found ", rotary.base)},
      {!IsPositive(rotary.factor),
       absl::StrCat("factor: expected a positive number, found ", rotary.factor)},
      {rotary.position_offset < -kMaxPosition || rotary.position_offset > kMaxPosition,
       absl::StrCat("position_offset: expected ", -kMaxPosition, " to ", kMaxPosition, ", found ",
                    rotary.position_offset)},
      {is_llama3 && rotary.original_max_positions < 1,
       absl::StrCat("original_max_positions: expected 1 or more, found ",
                    rotary.original_max_positions)},
      {is_llama3 && !IsPositive(rotary.low_freq_factor),
       absl::StrCat("low_freq_factor: expected a positive number, found ", rotary.low_freq_factor)},
      {is_llama3 && !(rotary.high_freq_factor > rotary.low_freq_factor),
       absl::StrCat("high_freq_factor: expected more than low_freq_factor ", rotary.low_freq_factor,
                    ", found ", rotary.high_freq_factor)},
  };
  for (const Rule& rule : rules) {
    if (rule.is_broken) {
      return absl::InvalidArgumentError(absl::StrCat("rotary.", rule.text));
    }
  }
  return absl::OkStatus();
}

absl::Status Validate(std::span<const AttentionSequence> sequences) {
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const Checker checker(i, sequences[i]);
    RETURN_IF_ERROR(checker.Extents());
    RETURN_IF_ERROR(checker.LikeFirst(sequences.front()));
    RETURN_IF_ERROR(checker.Positions());
    RETURN_IF_ERROR(checker.Scores());
    RETURN_IF_ERROR(checker.Preparation());
    RETURN_IF_ERROR(checker.SimilarityTakes());
  }
  return absl::OkStatus();
}

}  // namespace attention
