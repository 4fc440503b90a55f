#include "server/models/verify_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/models/probe_model.h"

namespace attention {
namespace {

constexpr int64_t kMaxTokens = 64;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ModelDifference Compare(std::string of, const Tensor& served, const Tensor& exact) {
  double max_abs_error = 0;
  double squared_error = 0;
  double squared_norm = 0;
  for (int64_t i = 0; i < exact.num_elements(); ++i) {
    const double expected = exact.as<float>()[i];
    const double error = std::abs(served.as<float>()[i] - expected);
    if (!std::isfinite(error)) {
      return {.of = std::move(of), .max_abs_error = kInfinity, .relative_l2 = kInfinity};
    }
    max_abs_error = std::max(max_abs_error, error);
    squared_error += error * error;
    squared_norm += expected * expected;
  }
  return {.of = std::move(of),
          .max_abs_error = max_abs_error,
          .relative_l2 = squared_error > 0 ? std::sqrt(squared_error / squared_norm) : 0};
}

/// Whether the largest logit is the same; not where a logit is no number.
bool Agrees(std::span<const float> served, std::span<const float> exact) {
  const auto is_number = [](float logit) { return !std::isnan(logit); };
  return std::ranges::all_of(served, is_number) &&
         std::ranges::max_element(served) - served.begin() ==
             std::ranges::max_element(exact) - exact.begin();
}

double Top1Agreement(const Tensor& served, const Tensor& exact) {
  const int64_t rows = exact.shape()[0];
  const auto width = static_cast<size_t>(exact.shape()[1]);
  int64_t agreed = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row * exact.shape()[1];
    agreed += Agrees({served.as<float>() + first, width}, {exact.as<float>() + first, width});
  }
  return static_cast<double>(agreed) / static_cast<double>(rows);
}

/// The two models, and the problem that both get.
struct Comparison {
  const Model& served;
  const Model& exact;
  const Probe& probe;
  Workspace& workspace;
};

absl::StatusOr<ModelDifference> CompareLayer(const Comparison& models, int64_t layer) {
  ASSIGN_OR_RETURN(const Tensor served,
                   ProbeLayer(models.served, layer, models.probe, models.workspace));
  ASSIGN_OR_RETURN(const Tensor exact,
                   ProbeLayer(models.exact, layer, models.probe, models.workspace));
  return Compare(absl::StrCat("layer ", layer), served, exact);
}

absl::StatusOr<ModelDifference> CompareStack(const Comparison& models, ModelOutput wanted) {
  ASSIGN_OR_RETURN(const Tensor served,
                   ProbeStack(models.served, wanted, models.probe, models.workspace));
  ASSIGN_OR_RETURN(const Tensor exact,
                   ProbeStack(models.exact, wanted, models.probe, models.workspace));
  if (wanted != ModelOutput::kLogits) {
    return Compare("last hidden states", served, exact);
  }
  ModelDifference difference = Compare("logits", served, exact);
  difference.top1_agreement = Top1Agreement(served, exact);
  return difference;
}

}  // namespace

absl::StatusOr<ModelVerification> CompareModels(const Model& served, const Model& exact,
                                                const Yield& yield) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  const ModelInfo& info = served.info();
  const Probe probe = {.num_tokens = ProbeLength(info, kMaxTokens), .yield = yield};
  const Comparison models = {served, exact, probe, workspace};
  ModelVerification result = {.info = info, .num_tokens = probe.num_tokens};
  for (int64_t layer = 0; layer < std::ssize(info.layers); ++layer) {
    if (!yield()) {
      return absl::CancelledError("the caller no longer waits for the answer");
    }
    ASSIGN_OR_RETURN(ModelDifference difference, CompareLayer(models, layer));
    result.differences.push_back(std::move(difference));
  }
  if (info.has_stack) {
    ASSIGN_OR_RETURN(ModelDifference difference, CompareStack(models, ModelOutput::kHiddenStates));
    result.differences.push_back(std::move(difference));
  }
  if (info.has_stack && info.has_logits) {
    ASSIGN_OR_RETURN(ModelDifference difference, CompareStack(models, ModelOutput::kLogits));
    result.differences.push_back(std::move(difference));
  }
  return result;
}

}  // namespace attention
