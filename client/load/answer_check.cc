#include "client/load/answer_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"
#include "client/load/expected_answer.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Returns the relative error over the tensors of all sequences; infinite if an infinite value is
/// expected and another found.
absl::StatusOr<double> CompareTensors(const std::vector<Doubles>& expected,
                                      const std::vector<Tensor>& actual, const char* name) {
  Doubles all_actual, all_expected;
  for (const Tensor& tensor : actual) {
    const Doubles values = DoublesOf(tensor, 0, tensor.num_elements());
    all_actual.insert(all_actual.end(), values.begin(), values.end());
  }
  for (const Doubles& values : expected) {
    all_expected.insert(all_expected.end(), values.begin(), values.end());
  }
  if (all_actual.size() != all_expected.size()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", all_expected.size(),
                                                   " values, found ", all_actual.size()));
  }
  for (size_t i = 0; i < all_expected.size(); ++i) {
    if (std::isinf(all_expected[i]) && all_actual[i] != all_expected[i]) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return reference::RelativeL2(all_actual, all_expected);
}

/// Appends the largest weights of one sequence twice to `actual`. Their expected values are the
/// largest of `weights`, and the weights of the answer's keys, because equal weights may come in
/// any order.
absl::Status AppendTopWeights(const Doubles& weights, const LargestWeights& top, Doubles& actual,
                              Doubles& expected) {
  const Shape& shape = top.weights.shape();
  const int64_t k = shape.size() == 3 ? shape[2] : 0;
  const int64_t rows = shape.size() == 3 ? shape[0] * shape[1] : 0;
  const int64_t kv_len = rows == 0 ? 0 : std::ssize(weights) / rows;
  if (shape.size() != 3 || rows * kv_len != std::ssize(weights) || (rows > 0 && k > kv_len) ||
      std::ssize(top.keys) != rows * k) {
    return absl::InvalidArgumentError(absl::StrCat("top_weights: expected those of ",
                                                   weights.size(), " weights, found [",
                                                   absl::StrJoin(shape, ", "), "]"));
  }
  const Doubles values = DoublesOf(top.weights, 0, top.weights.num_elements());
  for (int64_t row = 0; row < rows; ++row) {
    Doubles sorted(weights.begin() + row * kv_len, weights.begin() + (row + 1) * kv_len);
    std::partial_sort(sorted.begin(), sorted.begin() + k, sorted.end(), std::greater<>());
    for (int64_t i = 0; i < k; ++i) {
      const int64_t key = top.keys[row * k + i];
      const bool is_key = key >= 0 && key < kv_len;
      actual.insert(actual.end(), 2, values[row * k + i]);
      expected.push_back(sorted[i]);
      expected.push_back(is_key ? weights[row * kv_len + key] : 0);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> CompareTopWeights(const std::vector<Doubles>& weights,
                                         const std::vector<LargestWeights>& top) {
  if (top.size() != weights.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_weights: expected ", weights.size(), " sequences, found ", top.size()));
  }
  Doubles actual, expected;
  for (size_t s = 0; s < top.size(); ++s) {
    RETURN_IF_ERROR(AppendTopWeights(weights[s], top[s], actual, expected));
  }
  return reference::RelativeL2(actual, expected);
}

/// Returns the relative error of rounding to BF16 alone: 1.7e-3 of many numbers, up to 3.9e-3 of
/// few.
double RoundingErrorBf16(const Doubles& exact) {
  Doubles rounded;
  rounded.reserve(exact.size());
  for (const double number : exact) {
    rounded.push_back(ToFloat(ToBf16(static_cast<float>(number))));
  }
  return reference::RelativeL2(rounded, exact);
}

/// Compares `result` with the expected answer. INVALID_ARGUMENT if it has another shape.
absl::StatusOr<AnswerCheck> CompareAnswer(const ExpectedAnswer& expected,
                                          const AttendResult& result, double tolerance) {
  if (result.output.num_elements() != std::ssize(expected.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: expected ", expected.output.size(), " elements, found [",
                     absl::StrJoin(result.output.shape(), ", "), "]"));
  }
  AnswerCheck check{
      .relative_l2 = reference::RelativeL2(
          DoublesOf(result.output, 0, result.output.num_elements()), expected.output),
      .tolerance = tolerance,
      .others_tolerance = tolerance,
      .num_not_finite = std::count_if(expected.output.begin(), expected.output.end(),
                                      [](double value) { return !std::isfinite(value); })};
  if (result.output.dtype() == Dtype::kBf16) {
    // Of few numbers rounding alone can take the whole tolerance.
    constexpr double kMost = 6e-3;
    check.tolerance =
        std::max(tolerance, std::min(kMost, 1.5 * RoundingErrorBf16(expected.output)));
  }
  if (!result.weights.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["weights"],
                     CompareTensors(expected.weights, result.weights, "weights"));
  }
  if (!result.log_sum_exp.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["log_sum_exp"],
                     CompareTensors(expected.log_sum_exp, result.log_sum_exp, "log_sum_exp"));
  }
  if (!result.top_weights.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["top_weights"],
                     CompareTopWeights(expected.weights, result.top_weights));
  }
  return check;
}

absl::Status CannotBeVerified(const AttendRequest& request, const char* why) {
  return absl::FailedPreconditionError(
      absl::StrCat("model \"", request.model, "\" cannot be verified: ", why));
}

double AttentionTolerance(Dtype dtype) {
  return dtype == Dtype::kF32 ? reference::kAttentionToleranceF32
                              : reference::kAttentionToleranceBf16;
}

/// The error that a layer of bf16 adds by rounding rows of a wider dtype, which it does on
/// processors that multiply bf16. Of N(0, 1) rows it is 2.8e-3, beside 3.0e-3 to 3.8e-3 of all else
/// (layers of 192 to 768 columns and heads of 32 to 128, each rounding simulated in double
/// precision).
constexpr double kRoundingOfRowsBf16 = 3e-3;

/// `dtype` is that of the layer.
double LayerTolerance(Dtype dtype, const AttendRequest& request, const AttendResult& result) {
  if (dtype == Dtype::kF32 && result.output.dtype() == Dtype::kF32) {
    return reference::kLayerToleranceF32;
  }
  const auto* rows = std::get_if<HiddenStatesInput>(&request.input);
  return dtype == Dtype::kBf16 && rows != nullptr && rows->tensor->dtype() != Dtype::kBf16
             ? std::hypot(reference::kLayerToleranceBf16, kRoundingOfRowsBf16)
             : reference::kLayerToleranceBf16;
}

}  // namespace

absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result) {
  if (std::holds_alternative<TextInput>(request.input)) {
    return CannotBeVerified(request, "only the server can tokenize texts");
  }
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request));
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    ASSIGN_OR_RETURN(const ExpectedAnswer expected, ExpectedOfAttention(request, sequences));
    return CompareAnswer(expected, result, AttentionTolerance(input->query->dtype()));
  }
  if (model == nullptr || !model->has_seed()) {
    return CannotBeVerified(request, "its weights are not generated from a seed");
  }
  if (const auto* rows = std::get_if<HiddenStatesInput>(&request.input);
      model->has_stack() || (rows != nullptr && rows->tensor == nullptr)) {
    return CannotBeVerified(request, "only single attention layers are recomputed");
  }
  const Dtype dtype = model->dtype() == v1::BF16 ? Dtype::kBf16 : Dtype::kF32;
  if (dtype == Dtype::kBf16 && request.options.similarity() == v1::BOX) {
    return CannotBeVerified(request,
                            "rounding its rows to BF16 moves keys across the edge of the box");
  }
  ASSIGN_OR_RETURN(const ExpectedAnswer expected,
                   ExpectedOfLayer(*model, dtype, request, sequences));
  return CompareAnswer(expected, result, LayerTolerance(dtype, request, result));
}

absl::StatusOr<std::optional<AnswerCheck>> CheckIfReproducible(AttentionClient& client,
                                                               const AttendRequest& request,
                                                               const AttendResult& result) {
  v1::Model model;
  const bool has_model = !std::holds_alternative<QueryKeyValueInput>(request.input);
  if (has_model) {
    ASSIGN_OR_RETURN(model, client.GetModel(request.model, request.model_version));
  }
  absl::StatusOr<AnswerCheck> check = CheckAnswer(has_model ? &model : nullptr, request, result);
  if (absl::IsFailedPrecondition(check.status())) {
    return std::nullopt;
  }
  return check;
}

}  // namespace attention
