#include "client/load/reference_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/option_fields.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

// The enumerations have the order of those on the wire.
static_assert(static_cast<int>(reference::Similarity::kLinear) == v1::LINEAR &&
              static_cast<int>(reference::Rotary::Scaling::kLlama3) == v1::Rotary::LLAMA3);

absl::Status ExpectSize(int64_t found, int64_t expected, const char* field) {
  if (found != 0 && found != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.", field, ": expected 0 or ", expected, ", found ", found));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const v1::AttentionOptions& wire, const AttentionExtents& extents) {
  RETURN_IF_ERROR(ExpectSize(wire.alibi_slopes_size(), extents.num_heads, "alibi_slopes"));
  RETURN_IF_ERROR(ExpectSize(wire.sinks_size(), extents.num_heads, "sinks"));
  RETURN_IF_ERROR(
      ExpectSize(wire.query_norm().weight_size(), extents.head_dim, "query_norm.weight"));
  RETURN_IF_ERROR(ExpectSize(wire.key_norm().weight_size(), extents.head_dim, "key_norm.weight"));
  RETURN_IF_ERROR(ExpectSize(wire.sequences_size(), extents.num_sequences, "sequences"));
  if (wire.rotary().dim() < 0 || wire.rotary().dim() > extents.head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.rotary.dim: expected 0 to ", extents.head_dim, ", found ", wire.rotary().dim()));
  }
  return absl::OkStatus();
}

/// The part of [1 or B, 1 or H, Sq, Sk] that belongs to sequence `index`, [1 or H, query_len,
/// kv_len].
template <typename To, typename From>
absl::StatusOr<std::vector<To>> ScoresOf(const From* data, const Shape& shape,
                                         const AttentionExtents& extents, int64_t index,
                                         const SequenceSpan& span, const char* field) {
  if (shape.size() != 4 || (shape[0] != 1 && shape[0] != extents.num_sequences) ||
      (shape[1] != 1 && shape[1] != extents.num_heads) || shape[2] < span.query_len ||
      shape[3] < span.kv_len) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.", field, ": expected a shape that fits the request, found ", ShapeText(shape)));
  }
  const int64_t batch = shape[0] == 1 ? 0 : index;
  std::vector<To> scores;
  scores.reserve(shape[1] * span.query_len * span.kv_len);
  for (int64_t h = 0; h < shape[1]; ++h) {
    for (int64_t i = 0; i < span.query_len; ++i) {
      const From* row = data + ((batch * shape[1] + h) * shape[2] + i) * shape[3];
      scores.insert(scores.end(), row, row + span.kv_len);
    }
  }
  return scores;
}

absl::Status AddScores(const AttendRequest& request, const AttentionExtents& extents, int64_t index,
                       const SequenceSpan& span, reference::Options& options) {
  if (request.bias != nullptr) {
    ASSIGN_OR_RETURN(options.bias,
                     ScoresOf<double>(request.bias->as<float>(), request.bias->shape(), extents,
                                      index, span, "bias"));
  }
  if (request.mask != nullptr) {
    ASSIGN_OR_RETURN(options.mask,
                     ScoresOf<uint8_t>(request.mask->values.data(), request.mask->shape, extents,
                                       index, span, "mask"));
  }
  return absl::OkStatus();
}

reference::RmsNorm NormOf(const v1::RmsNorm& wire) {
  reference::RmsNorm norm;
  norm.weight.assign(wire.weight().begin(), wire.weight().end());
  norm.epsilon = wire.has_epsilon() ? wire.epsilon() : norm.epsilon;
  return norm;
}

}  // namespace

absl::StatusOr<reference::Options> ReferenceOptionsOf(const AttendRequest& request,
                                                      const AttentionExtents& extents,
                                                      int64_t index, const SequenceSpan& span) {
  const v1::AttentionOptions& wire = request.options;
  RETURN_IF_ERROR(CheckOptions(wire, extents));
  reference::Options options;
  options.causal = extents.is_causal;
  options.query_offset = span.query_offset;
  ReadVisibilityFields(wire, reference::kVisibilityNumbers, options);
  if (!wire.sequences().empty()) {
    ReadVisibilityFields(wire.sequences(static_cast<int>(index)), reference::kVisibilityNumbers,
                         options);
  }
  std::erase_if(options.global_tokens, [&span](int64_t token) { return token >= span.kv_len; });
  if (wire.has_scale()) {
    options.scale = wire.scale();
  }
  options.softcap = wire.softcap();
  options.alibi_slopes.assign(wire.alibi_slopes().begin(), wire.alibi_slopes().end());
  options.sinks.assign(wire.sinks().begin(), wire.sinks().end());
  if (wire.has_query_norm()) {
    options.query_norm = NormOf(wire.query_norm());
  }
  if (wire.has_key_norm()) {
    options.key_norm = NormOf(wire.key_norm());
  }
  if (wire.has_rotary()) {
    options.rotary = RotaryOf<reference::Rotary>(wire.rotary());
  }
  options.similarity = static_cast<reference::Similarity>(wire.similarity());
  options.bandwidth = wire.bandwidth();
  RETURN_IF_ERROR(AddScores(request, extents, index, span, options));
  return options;
}

}  // namespace attention
