#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/lib/answer_codec.h"
#include "client/lib/decode_stream.h"
#include "client/load/answer_check.h"
#include "client/load/bench_runner.h"
#include "client/load/decode_load.h"
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
    ASSIGN_OR_RETURN(StepResult result, stream->Step(i == 0 ? plan.Prefill() : plan.Step(i - 1)));
    outputs.push_back(std::move(result.answer.output));
  }
  RETURN_IF_ERROR(stream->Close());
  return outputs;
}

absl::StatusOr<Tensor> OutputOf(const StepRequest& step, const LoadSample& sample) {
  AttendRequest request;
  request.input = step.input;
  request.model_output = step.model_output;
  ASSIGN_OR_RETURN(AttendResult answer, DecodeSessionAnswer(request, sample.messages));
  return std::move(answer.output);
}

class DecodeRunner : public BenchRunner {
 public:
  explicit DecodeRunner(const DecodePlan& plan) : plan_(plan) {}

  absl::Status Prepare(AttentionClient& client, const LoadOptions& options) {
    ASSIGN_OR_RETURN(alone_, DecodeAlone(plan_, options));
    if (options.num_samples > 0) {
      verification_.emplace();
      if (plan_.Step(0).model_output == v1::LAST_HIDDEN_STATES &&
          plan_.options().cache_dtype == v1::FP32) {
        const Workload at_once = plan_.AtOnce();
        AttendResult joined;
        joined.output = JoinRows(PointersTo(alone_));
        ASSIGN_OR_RETURN(verification_->reference,
                         CheckIfReproducible(client, at_once.request, joined));
      }
    }
    ASSIGN_OR_RETURN(session_, EncodeSession(plan_));
    return absl::OkStatus();
  }

  BenchSubject Subject() const override {
    return {.model = plan_.open().model(),
            .request = plan_.Describe(),
            .is_streaming = true,
            .decode = plan_.options()};
  }

  absl::StatusOr<BenchLevel> Run(const LoadOptions& options, const LoadControl& control) override {
    ASSIGN_OR_RETURN(LoadResult result, RunDecodeLoad(session_, options, control));
    BenchLevel level{
        .options = options, .result = std::move(result), .verification = verification_};
    for (const LoadSample& sample : level.result.samples) {
      ASSIGN_OR_RETURN(const Tensor output, OutputOf(StepOf(sample), sample));
      ++level.verification->sampled;
      level.verification->identical += EqualBits(output, alone_[sample.kind]) ? 1 : 0;
    }
    level.result.samples.clear();
    return level;
  }

 private:
  StepRequest StepOf(const LoadSample& sample) const {
    return sample.kind == 0 ? plan_.Prefill() : plan_.Step(static_cast<int64_t>(sample.kind) - 1);
  }

  const DecodePlan& plan_;
  /// The answers of a session that ran alone.
  std::vector<Tensor> alone_;
  EncodedSession session_;
  /// Counts no samples yet; each level adds its own to a copy.
  std::optional<LoadVerification> verification_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchRunner>> MakeDecodeRunner(AttentionClient& client,
                                                              const DecodePlan& plan,
                                                              const LoadOptions& options) {
  auto runner = std::make_unique<DecodeRunner>(plan);
  RETURN_IF_ERROR(runner->Prepare(client, options));
  return runner;
}

}  // namespace attention
