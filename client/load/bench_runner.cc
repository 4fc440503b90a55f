#include "client/load/bench_runner.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/lib/answer_codec.h"
#include "client/lib/answer_shape.h"
#include "client/lib/decode_stream.h"
#include "client/load/answer_check.h"
#include "client/load/decode_load.h"
#include "client/load/length_mix.h"
#include "client/load/load_generator.h"
#include "client/load/request_mix.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Runs loads whose samples are compared with what was answered to the same requests alone.
class SampleRunner : public BenchRunner {
 public:
  absl::StatusOr<BenchLevel> Run(const LoadOptions& options, const LoadControl& control) final {
    ASSIGN_OR_RETURN(LoadResult result, Load(options, control));
    BenchLevel level{
        .options = options, .result = std::move(result), .verification = verification_};
    if (level.verification.has_value()) {
      level.verification->wanted = options.num_samples;
    }
    for (const LoadSample& sample : level.result.samples) {
      Count(IsIdentical(sample), *level.verification);
    }
    level.result.samples.clear();
    return level;
  }

 protected:
  virtual absl::StatusOr<LoadResult> Load(const LoadOptions& options,
                                          const LoadControl& control) = 0;
  /// Whether a sample equals, bit for bit, the answer that its request got alone.
  virtual absl::StatusOr<bool> IsIdentical(const LoadSample& sample) = 0;

  /// Counts no samples yet; each level adds its own to a copy.
  std::optional<LoadVerification> verification_;

 private:
  /// Counts a sample. One that cannot be compared does not lose what was measured.
  static void Count(const absl::StatusOr<bool>& is_identical, LoadVerification& verification) {
    if (is_identical.ok()) {
      ++verification.sampled;
      verification.identical += *is_identical ? 1 : 0;
    } else if (verification.unchecked++ == 0) {
      verification.unchecked_text =
          is_identical.status().ToString(absl::StatusToStringMode::kWithNoExtraData);
    }
  }
};

bool EqualBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Also of the weights of chosen layers.
bool EqualBits(const AttendResult& a, const AttendResult& b) {
  return EqualBits(a.output, b.output) &&
         std::ranges::equal(a.layer_weights, b.layer_weights,
                            [](const LayerWeights& x, const LayerWeights& y) {
                              return x.layer == y.layer && x.sequence == y.sequence &&
                                     EqualBits(x.weights, y.weights);
                            });
}

class RequestRunner : public SampleRunner {
 public:
  RequestRunner(AttentionClient& client, const RequestMix& mix, const Protocol& protocol)
      : client_(client), mix_(mix), protocol_(protocol) {}

  absl::Status Prepare(const LoadOptions& options) {
    const size_t first_kind = WeightedDraw(mix_.weights(), options.seed).Next();
    ASSIGN_OR_RETURN(const AttendResult* const first, AnswerAlone(first_kind));
    if (options.num_samples > 0) {
      verification_.emplace();
      const Workload workload = mix_.Make(first_kind);
      ASSIGN_OR_RETURN(verification_->reference,
                       CheckIfReproducible(client_, workload.request, *first));
    }
    ASSIGN_OR_RETURN(load_, EncodeLoad(mix_, protocol_, *first));
    return absl::OkStatus();
  }

  BenchSubject Subject() const override {
    BenchSubject subject{.model = mix_.request().model,
                         .request = mix_.Describe(),
                         .protocol = protocol_.name(),
                         .lengths = mix_.lengths_text(),
                         .is_streaming = protocol_.is_streaming()};
    if (mix_.request().options.has_causal()) {
      subject.causal = mix_.request().options.causal();
    }
    return subject;
  }

 protected:
  absl::StatusOr<LoadResult> Load(const LoadOptions& options, const LoadControl& control) override {
    return RunLoad(load_, options, control);
  }

  absl::StatusOr<bool> IsIdentical(const LoadSample& sample) override {
    const Workload workload = mix_.Make(sample.kind);
    ASSIGN_OR_RETURN(const AttendResult answer,
                     protocol_.Decode(workload.request, sample.messages));
    ASSIGN_OR_RETURN(const AttendResult* const expected, AnswerAlone(sample.kind));
    return EqualBits(answer, *expected);
  }

 private:
  /// The answer to a request that is sent alone; each kind is asked once. The pointer stays valid.
  absl::StatusOr<const AttendResult*> AnswerAlone(size_t kind) {
    if (const auto found = alone_.find(kind); found != alone_.end()) {
      return &found->second;
    }
    const Workload workload = mix_.Make(kind);
    ASSIGN_OR_RETURN(AttendResult answer, protocol_.Ask(client_, workload.request));
    return &alone_.emplace(kind, std::move(answer)).first->second;
  }

  AttentionClient& client_;
  const RequestMix& mix_;
  const Protocol& protocol_;
  std::map<size_t, AttendResult> alone_;
  EncodedLoad load_;
};

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

class DecodeRunner : public SampleRunner {
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

 protected:
  absl::StatusOr<LoadResult> Load(const LoadOptions& options, const LoadControl& control) override {
    return RunDecodeLoad(session_, options, control);
  }

  absl::StatusOr<bool> IsIdentical(const LoadSample& sample) override {
    const StepRequest step =
        sample.kind == 0 ? plan_.Prefill() : plan_.Step(static_cast<int64_t>(sample.kind) - 1);
    AttendRequest request;
    request.input = step.input;
    request.model_output = step.model_output;
    ASSIGN_OR_RETURN(const AttendResult answer, DecodeSessionAnswer(request, sample.messages));
    return EqualBits(answer.output, alone_[sample.kind]);
  }

 private:
  const DecodePlan& plan_;
  /// The answers of a session that ran alone.
  std::vector<Tensor> alone_;
  EncodedSession session_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchRunner>> MakeRequestRunner(AttentionClient& client,
                                                               const RequestMix& mix,
                                                               const Protocol& protocol,
                                                               const LoadOptions& options) {
  auto runner = std::make_unique<RequestRunner>(client, mix, protocol);
  RETURN_IF_ERROR(runner->Prepare(options));
  return runner;
}

absl::StatusOr<std::unique_ptr<BenchRunner>> MakeDecodeRunner(AttentionClient& client,
                                                              const DecodePlan& plan,
                                                              const LoadOptions& options) {
  auto runner = std::make_unique<DecodeRunner>(plan);
  RETURN_IF_ERROR(runner->Prepare(client, options));
  return runner;
}

}  // namespace attention
