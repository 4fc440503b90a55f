#include <map>
#include <optional>
#include <utility>

#include "client/load/bench_runner.h"
#include "client/load/length_mix.h"
#include "client/load/load_generator.h"
#include "client/load/request_mix.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

class RequestRunner : public BenchRunner {
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

  absl::StatusOr<BenchLevel> Run(const LoadOptions& options, const LoadControl& control) override {
    ASSIGN_OR_RETURN(LoadResult result, RunLoad(load_, options, control));
    BenchLevel level{
        .options = options, .result = std::move(result), .verification = verification_};
    for (const LoadSample& sample : level.result.samples) {
      const Workload workload = mix_.Make(sample.kind);
      ASSIGN_OR_RETURN(const AttendResult answer,
                       protocol_.Decode(workload.request, sample.messages));
      ASSIGN_OR_RETURN(const AttendResult* const expected, AnswerAlone(sample.kind));
      ++level.verification->sampled;
      level.verification->identical += EqualBits(answer.output, expected->output) ? 1 : 0;
    }
    level.result.samples.clear();
    return level;
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
  /// Counts no samples yet; each level adds its own to a copy.
  std::optional<LoadVerification> verification_;
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

}  // namespace attention
