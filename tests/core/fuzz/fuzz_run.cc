#include "tests/core/fuzz/fuzz_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/core/fuzz/fuzz_answer.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/core/fuzz/fuzz_tolerance.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

// Behind a large sink all weights may be smaller than the numbers of f32: beyond 2^128 it hides all
// keys. Numbers of f16 below 2^-14 are multiples of 2^-24.
constexpr double kNegligible = 8 * std::numeric_limits<float>::min();
constexpr double kNegligibleF16 = 0x1p-24;

/// The sum of few values of about `size` may cancel: what it is compared with then are the values
/// themselves. Differences below `negligible` are none.
bool IsClose(const std::vector<double>& actual, const std::vector<double>& expected,
             double tolerance, double size = 1, double negligible = kNegligible) {
  const double error = reference::RelativeL2(actual, expected);
  const auto count = static_cast<double>(actual.size());
  if (error <= tolerance * (1 + 40 / std::sqrt(count + 1))) {
    return true;
  }
  double difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(expected[i])) {
      difference = std::max(difference, std::abs(actual[i] - expected[i]));
    }
  }
  return difference < negligible || (count < 1024 && difference <= 4 * tolerance * size);
}

/// Returns what was expected and found where a number differs by more than `tolerance`, relative to
/// what is expected if that exceeds 1. Empty if none does.
std::string FirstDifference(const std::vector<double>& actual, const std::vector<double>& expected,
                            double tolerance) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const double bound = tolerance * std::max(1.0, std::abs(expected[i]));
    if (actual[i] != expected[i] && !(std::abs(actual[i] - expected[i]) <= bound) &&
        !std::isnan(expected[i])) {
      return absl::StrFormat("expected %.9g, within %g, found %.9g", expected[i], bound, actual[i]);
    }
  }
  return "";
}

/// NaN equals NaN: its sign and payload mean nothing.
bool AreSame(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Whether all numbers that are not expected are found so. A value of 8 bits with a weight of 0
/// counts as 0, and no box holds a distance that is no number.
bool HasExpectedNaN(const FuzzCase& c, const std::vector<double>& actual,
                    const std::vector<double>& expected) {
  if (c.cache == 3 || c.poison_kind == 3 ||
      static_cast<Similarity>(c.similarity) == Similarity::kBox) {
    return true;
  }
  return std::ranges::equal(actual, expected, [](double found, double wanted) {
    return !std::isnan(wanted) || !std::isfinite(found);
  });
}

/// Whether entry `i` of a row's largest weights is right behind the one before.
bool IsInOrder(const double* weights, const double* keys, int64_t i) {
  return i == 0 || weights[i] < weights[i - 1] ||
         (weights[i] == weights[i - 1] && (keys[i] == -1 || keys[i] > keys[i - 1]));
}

/// Compares the largest weights of each row with all its weights. Of equal ones any may be missing.
bool AreLargest(const FuzzCase& c, const Answer& answer, const std::vector<double>& weights) {
  const int64_t rows = std::ssize(answer.top_keys) / c.top_k;
  const int64_t keys = c.kv_len + NumExtraKeys(c);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> left(weights.begin() + r * keys, weights.begin() + (r + 1) * keys);
    const double* top_weights = answer.top_weights.data() + r * c.top_k;
    const double* top_keys = answer.top_keys.data() + r * c.top_k;
    if (std::ranges::any_of(left, [](double weight) { return std::isnan(weight); })) {
      continue;
    }
    for (int64_t i = 0; i < c.top_k; ++i) {
      const auto key = static_cast<int64_t>(top_keys[i]);
      const double expected = key < 0 ? 0 : left[key];
      if (top_weights[i] != expected || (key >= 0 && expected == 0) ||
          !IsInOrder(top_weights, top_keys, i)) {
        return false;
      }
      if (key >= 0) {
        left[key] = 0;
      }
    }
    if (std::ranges::any_of(left, [&](double w) { return w > top_weights[c.top_k - 1]; })) {
      return false;
    }
  }
  return true;
}

std::string Compare(const FuzzCase& c, const FuzzProblem& problem, const Answer& answer,
                    const Answer& alone, const reference::AttentionResult& expected) {
  const std::vector<double> output = ToDoubles(answer.output);
  const double tolerance = ToleranceOf(c, problem.output_dtype());
  const double negligible = std::max(problem.output_dtype() == Dtype::kF16 ? kNegligibleF16 : 0,
                                     kNegligible * std::max(1.0, ValueSize(c)));
  if (!IsClose(output, expected.output, tolerance, ValueSize(c), negligible)) {
    return absl::StrCat("output: expected a relative L2 error of at most ", tolerance, ", found ",
                        reference::RelativeL2(output, expected.output));
  }
  if (!HasExpectedNaN(c, output, expected.output)) {
    return "output: expected NaN of a row that attends to NaN, found a number";
  }
  if (!AreSame(output, ToDoubles(alone.output))) {
    return "output: expected the bits of the same sequence alone, found others";
  }
  if (!answer.has_clean_padding) {
    return "output: expected nothing written between its elements, found something";
  }
  const double weights_tolerance = WeightsToleranceOf(c);
  if (!answer.weights.empty() && !IsClose(answer.weights, expected.weights, weights_tolerance)) {
    return absl::StrCat("weights: expected a relative L2 error of at most ", weights_tolerance,
                        ", found ", reference::RelativeL2(answer.weights, expected.weights));
  }
  if (!answer.log_sum_exp.empty()) {
    const std::string difference =
        FirstDifference(answer.log_sum_exp, expected.log_sum_exp, LogSumExpToleranceOf(c));
    if (!difference.empty()) {
      return absl::StrCat("log_sum_exp: ", difference);
    }
  }
  if ((c.weights != 0 && !AreSame(answer.weights, alone.weights)) ||
      !AreSame(answer.top_weights, alone.top_weights) ||
      !AreSame(answer.top_keys, alone.top_keys)) {
    return "weights: expected the bits of the same sequence alone, found others";
  }
  if (!AreSame(answer.log_sum_exp, alone.log_sum_exp)) {
    return "log_sum_exp: expected the bits of the same sequence alone, found others";
  }
  if (c.top_k > 0 && !AreLargest(c, answer, alone.weights)) {
    return "top_weights: expected the largest of the weights, found others";
  }
  return "";
}

std::string CompareMerged(const FuzzCase& c, const FuzzProblem& problem,
                          const reference::AttentionResult& expected) {
  const absl::StatusOr<MergedAnswer> merged = MergedParts(problem, c);
  if (!merged.ok()) {
    return absl::StrCat("expected merged parts, found ", merged.status().ToString());
  }
  if (!IsClose(merged->output, expected.output, 2 * ToleranceOfSums(c), ValueSize(c))) {
    return absl::StrCat("output: expected that of merged parts of the keys to agree, found an ",
                        "error of ", reference::RelativeL2(merged->output, expected.output));
  }
  const std::string difference =
      FirstDifference(merged->log_sum_exp, expected.log_sum_exp, LogSumExpToleranceOf(c));
  return difference.empty() ? "" : absl::StrCat("log_sum_exp of merged parts: ", difference);
}

}  // namespace

std::string RunFuzzCase(const FuzzCase& c) {
  FuzzProblem problem(c);
  const absl::StatusOr<Answer> alone = Compute(problem, Alone(c));
  const absl::StatusOr<Answer> answer = Compute(problem, c);
  if (!alone.ok() || !answer.ok()) {
    return absl::StrCat("expected an answer, found ",
                        (alone.ok() ? answer.status() : alone.status()).ToString());
  }
  const reference::AttentionResult expected = problem.Expected();
  const std::string error = Compare(c, problem, *answer, *alone, expected);
  return error.empty() && c.parts > 0 ? CompareMerged(c, problem, expected) : error;
}

}  // namespace attention
