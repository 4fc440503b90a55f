#include "client/load/decode_bench.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/answer_codec.h"
#include "client/lib/decode_stream.h"
#include "client/load/answer_check.h"
#include "client/load/same_bits.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The outputs of the prompt and of each step.
absl::StatusOr<std::vector<Tensor>> DecodeAlone(const DecodePlan& plan,
                                                const LoadOptions& options) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<DecodeStream> stream,
      DecodeStream::Open({.connection = options.connection, .timeout = options.timeout},
                         plan.open()));
  std::vector<Tensor> outputs;
  for (int64_t i = 0; i <= plan.options().steps; ++i) {
    ASSIGN_OR_RETURN(StepResult result, stream->Step(i == 0 ? plan.Prefill() : plan.Step()));
    outputs.push_back(std::move(result.answer.output));
  }
  RETURN_IF_ERROR(stream->Close());
  return outputs;
}

/// As the answer to all tokens at once. REQUIRES: outputs of one row a token, of one dtype.
AttendResult Join(const std::vector<Tensor>& outputs) {
  Shape shape = outputs[0].shape();
  for (size_t i = 1; i < outputs.size(); ++i) {
    shape[0] += outputs[i].shape()[0];
  }
  AttendResult result;
  result.output = Tensor(outputs[0].dtype(), std::move(shape));
  auto* target = static_cast<std::byte*>(result.output.data());
  for (const Tensor& output : outputs) {
    if (output.size_bytes() > 0) {
      std::memcpy(target, output.data(), output.size_bytes());
      target += output.size_bytes();
    }
  }
  return result;
}

absl::StatusOr<Tensor> OutputOf(const StepRequest& step, const DecodeSample& sample) {
  AttendRequest request;
  request.input = step.input;
  request.model_output = step.model_output;
  ASSIGN_OR_RETURN(AttendResult answer, DecodeSessionAnswer(request, sample.messages));
  return std::move(answer.output);
}

}  // namespace

absl::StatusOr<DecodeReport> RunDecodeBench(AttentionClient& client, const DecodePlan& plan,
                                            const LoadOptions& options) {
  DecodeReport report;
  report.model = plan.open().model();
  report.request = plan.Describe();
  report.decode = plan.options();
  report.options = options;
  ASSIGN_OR_RETURN(const std::vector<Tensor> alone, DecodeAlone(plan, options));
  if (options.num_samples > 0) {
    report.verification.emplace();
    if (plan.Step().model_output == v1::LAST_HIDDEN_STATES &&
        plan.options().cache_dtype == v1::FP32) {
      const Workload at_once = plan.AtOnce();
      ASSIGN_OR_RETURN(report.verification->reference,
                       CheckIfReproducible(client, at_once.request, Join(alone)));
    }
  }
  ASSIGN_OR_RETURN(const EncodedSession session, EncodeSession(plan));
  ASSIGN_OR_RETURN(report.result, RunDecodeLoad(session, options));
  for (const DecodeSample& sample : report.result.samples) {
    ASSIGN_OR_RETURN(const Tensor output,
                     OutputOf(sample.index == 0 ? plan.Prefill() : plan.Step(), sample));
    ++report.verification->sampled;
    report.verification->identical += SameBits(output, alone[sample.index]) ? 1 : 0;
  }
  report.result.samples.clear();
  return report;
}

}  // namespace attention
