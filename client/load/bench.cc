#include "client/load/bench.h"

#include <cstring>
#include <utility>

#include "client/lib/answer_codec.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Absent when the model's weights cannot be reproduced here.
absl::StatusOr<std::optional<AnswerCheck>> CheckFirst(AttentionClient& client,
                                                      const AttendRequest& request,
                                                      const AttendResult& first) {
  v1::Model model;
  const bool has_model = !std::holds_alternative<QueryKeyValueInput>(request.input);
  if (has_model) {
    ASSIGN_OR_RETURN(model, client.GetModel(request.model, request.model_version));
    if (!model.has_seed()) {
      return std::nullopt;
    }
  }
  ASSIGN_OR_RETURN(const AnswerCheck check,
                   CheckAnswer(has_model ? &model : nullptr, request, first));
  return check;
}

absl::StatusOr<AttendResult> DecodeSample(const AttendRequest& request, bool is_streaming,
                                          const LoadAnswer& sample) {
  return is_streaming ? DecodeStream(request, sample) : DecodeAnswer(sample.back());
}

}  // namespace

absl::StatusOr<LoadReport> RunBench(AttentionClient& client, const AttendRequest& request,
                                    bool is_streaming, const LoadOptions& options) {
  ASSIGN_OR_RETURN(const AttendResult first, client.Attend(request));
  LoadReport report;
  report.model = request.model;
  report.request = Describe(request);
  report.is_streaming = is_streaming;
  if (request.options.has_causal()) {
    report.causal = request.options.causal();
  }
  report.options = options;
  ASSIGN_OR_RETURN(report.tokens_per_request, QueryRows(request, first));
  ASSIGN_OR_RETURN(const LoadRequest load, EncodeLoad(request, is_streaming));
  report.request_bytes = static_cast<int64_t>(load.bytes.Length());
  if (options.num_samples > 0) {
    report.verification.emplace();
    ASSIGN_OR_RETURN(report.verification->reference, CheckFirst(client, request, first));
  }
  report.result = RunClosedLoop(load, options);
  for (const LoadAnswer& sample : report.result.samples) {
    ASSIGN_OR_RETURN(const AttendResult answer, DecodeSample(request, is_streaming, sample));
    ++report.verification->sampled;
    report.verification->identical += SameBits(answer.output, first.output) ? 1 : 0;
  }
  report.result.samples.clear();
  return report;
}

}  // namespace attention
