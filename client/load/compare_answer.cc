#include "client/load/compare_answer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The relative error over the tensors of all sequences; infinite if an infinite value is expected
/// and another found.
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
  if (shape.size() != 3 || rows * kv_len != std::ssize(weights) || k > kv_len ||
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

}  // namespace

Doubles DoublesOf(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first), Dtype::kF32,
          values.data(), count);
  return Doubles(values.begin(), values.end());
}

absl::StatusOr<AnswerCheck> CompareAnswer(const ExpectedAnswer& expected,
                                          const AttendResult& result, double tolerance) {
  if (result.output.num_elements() != std::ssize(expected.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: expected ", expected.output.size(), " elements, found [",
                     absl::StrJoin(result.output.shape(), ", "), "]"));
  }
  AnswerCheck check{.relative_l2 = reference::RelativeL2(
                        DoublesOf(result.output, 0, result.output.num_elements()), expected.output),
                    .tolerance = tolerance};
  if (!result.weights.empty()) {
    ASSIGN_OR_RETURN(check.weights_relative_l2,
                     CompareTensors(expected.weights, result.weights, "weights"));
  }
  if (!result.log_sum_exp.empty()) {
    ASSIGN_OR_RETURN(check.log_sum_exp_relative_l2,
                     CompareTensors(expected.log_sum_exp, result.log_sum_exp, "log_sum_exp"));
  }
  if (!result.top_weights.empty()) {
    ASSIGN_OR_RETURN(check.top_weights_relative_l2,
                     CompareTopWeights(expected.weights, result.top_weights));
  }
  return check;
}

}  // namespace attention
