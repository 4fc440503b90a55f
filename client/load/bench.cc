#include "client/load/bench.h"

#include <map>
#include <utility>

#include "client/load/encoded_load.h"
#include "client/load/length_mix.h"
#include "client/load/load_generator.h"
#include "client/load/same_bits.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// What requests get that are alone, each kind asked once.
class AnswersAlone {
 public:
  AnswersAlone(AttentionClient& client, const RequestMix& mix, const Protocol& protocol)
      : client_(client), mix_(mix), protocol_(protocol) {}

  /// The pointer stays valid.
  absl::StatusOr<const AttendResult*> Of(size_t kind) {
    if (const auto found = answers_.find(kind); found != answers_.end()) {
      return &found->second;
    }
    const Workload workload = mix_.Make(kind);
    ASSIGN_OR_RETURN(AttendResult answer, protocol_.Ask(client_, workload.request));
    return &answers_.emplace(kind, std::move(answer)).first->second;
  }

 private:
  AttentionClient& client_;
  const RequestMix& mix_;
  const Protocol& protocol_;
  std::map<size_t, AttendResult> answers_;
};

LoadReport DescribeRun(const RequestMix& mix, const Protocol& protocol,
                       const LoadOptions& options) {
  LoadReport report;
  report.model = mix.request().model;
  report.request = mix.Describe();
  report.protocol = protocol.name();
  report.lengths = mix.lengths_text();
  report.is_streaming = protocol.is_streaming();
  if (mix.request().options.has_causal()) {
    report.causal = mix.request().options.causal();
  }
  report.options = options;
  return report;
}

}  // namespace

absl::StatusOr<LoadReport> RunBench(AttentionClient& client, const RequestMix& mix,
                                    const Protocol& protocol, const LoadOptions& options) {
  LoadReport report = DescribeRun(mix, protocol, options);
  AnswersAlone alone(client, mix, protocol);
  const size_t first_kind = WeightedDraw(mix.weights(), options.seed).Next();
  ASSIGN_OR_RETURN(const AttendResult* const first, alone.Of(first_kind));
  if (options.num_samples > 0) {
    report.verification.emplace();
    const Workload workload = mix.Make(first_kind);
    ASSIGN_OR_RETURN(report.verification->reference,
                     CheckIfReproducible(client, workload.request, *first));
  }
  ASSIGN_OR_RETURN(const EncodedLoad load, EncodeLoad(mix, protocol, *first));
  ASSIGN_OR_RETURN(report.result, RunLoad(load, options));
  for (const LoadSample& sample : report.result.samples) {
    const Workload workload = mix.Make(sample.kind);
    ASSIGN_OR_RETURN(const AttendResult answer, protocol.Decode(workload.request, sample.messages));
    ASSIGN_OR_RETURN(const AttendResult* const expected, alone.Of(sample.kind));
    ++report.verification->sampled;
    report.verification->identical += SameBits(answer.output, expected->output) ? 1 : 0;
  }
  report.result.samples.clear();
  return report;
}

}  // namespace attention
