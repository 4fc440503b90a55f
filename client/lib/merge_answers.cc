#include "client/lib/merge_answers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/merge.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

absl::Status CheckPart(const AttendResult& part, const AttendResult& first, size_t index) {
  const auto wrong = [index](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("part ", index, ": ", what...));
  };
  if (part.output.shape() != first.output.shape() || part.output.dtype() != first.output.dtype()) {
    return wrong("output: expected ", ShapeText(first.output.shape()), " ",
                 std::string(Name(first.output.dtype())), " as part 0, found ",
                 ShapeText(part.output.shape()), " ", std::string(Name(part.output.dtype())));
  }
  if (part.log_sum_exp.empty() || part.log_sum_exp.size() != first.log_sum_exp.size()) {
    return wrong("log_sum_exp: expected one for each sequence (return_log_sum_exp), found ",
                 part.log_sum_exp.size());
  }
  for (size_t s = 0; s < part.log_sum_exp.size(); ++s) {
    if (part.log_sum_exp[s].shape() != first.log_sum_exp[s].shape() ||
        part.log_sum_exp[s].dtype() != Dtype::kF32) {
      return wrong("log_sum_exp of sequence ", s, ": expected FP32 ",
                   ShapeText(first.log_sum_exp[s].shape()), " as part 0, found ",
                   ShapeText(part.log_sum_exp[s].shape()));
    }
  }
  return absl::OkStatus();
}

/// Checks that the rows of each sequence lie within the output: [B, Sq, H, Dv] or [T, H, Dv].
absl::Status CheckRows(const AttendResult& part, size_t num_sinks) {
  const Shape& shape = part.output.shape();
  const bool is_padded = shape.size() == 4;
  if (!is_padded && shape.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: expected [B, Sq, H, Dv] or [T, H, Dv] of query_key_value, found ",
                     ShapeText(shape)));
  }
  const int64_t num_heads = shape[shape.size() - 2];
  int64_t rows = 0;
  bool fits = !is_padded || std::ssize(part.log_sum_exp) == shape[0];
  for (const Tensor& sums : part.log_sum_exp) {
    fits = fits && sums.shape().size() == 2 && sums.shape()[0] == num_heads &&
           (!is_padded || sums.shape()[1] <= shape[1]);
    rows += fits ? sums.shape()[1] : 0;
  }
  if (!fits || (!is_padded && rows != shape[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("log_sum_exp: expected [H, query_len] of each sequence of output ",
                     ShapeText(shape), ", found other shapes"));
  }
  if (num_sinks != 0 && static_cast<int64_t>(num_sinks) != num_heads) {
    return absl::InvalidArgumentError(absl::StrCat("sinks: expected no value or one for each of ",
                                                   num_heads, " heads, found ", num_sinks));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttendResult> MergeAnswers(std::span<const AttendResult> parts,
                                          std::span<const float> sinks) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("parts: expected at least one, found none");
  }
  const AttendResult& first = parts.front();
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(CheckPart(parts[i], first, i));
  }
  RETURN_IF_ERROR(CheckRows(first, sinks.size()));
  const Shape& shape = first.output.shape();
  const int64_t num_heads = shape[shape.size() - 2], width = shape.back();
  std::vector<Tensor> outputs;
  for (const AttendResult& part : parts) {
    outputs.push_back(part.output.ConvertedTo(Dtype::kF32));
  }
  // Rows of padding are 0 and stay so.
  Tensor merged = first.output.ConvertedTo(Dtype::kF32);
  AttendResult result;
  int64_t row = 0;
  for (size_t s = 0; s < first.log_sum_exp.size(); ++s) {
    const int64_t query_len = first.log_sum_exp[s].shape()[1];
    const int64_t first_row = shape.size() == 4 ? static_cast<int64_t>(s) * shape[1] : row;
    const int64_t offset = first_row * num_heads * width;
    std::vector<PartialResult> partials;
    for (size_t i = 0; i < parts.size(); ++i) {
      partials.push_back({outputs[i].as<float>() + offset, parts[i].log_sum_exp[s].as<float>()});
    }
    Tensor& sums = result.log_sum_exp.emplace_back(Dtype::kF32, Shape{num_heads, query_len});
    MergePartials({query_len, num_heads, width}, partials, sinks,
                  {merged.as<float>() + offset, sums.as<float>()});
    row += query_len;
  }
  result.output = merged.ConvertedTo(first.output.dtype());
  return result;
}

}  // namespace attention
