// Measures and checks one level of load after the other.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/lib/attention_client.h"
#include "client/load/bench_report.h"
#include "client/load/decode_plan.h"
#include "client/load/protocol.h"
#include "client/load/request_mix.h"

namespace attention {

/// One thread at a time may use it.
class BenchRunner {
 public:
  virtual ~BenchRunner() = default;

  virtual BenchSubject Subject() const = 0;
  /// Runs the load, and compares sampled answers bit for bit to those that the same requests get
  /// alone. What fails under load is part of the level; errors are those of malformed answers, and
  /// of requests that are sent alone.
  virtual absl::StatusOr<BenchLevel> Run(const LoadOptions& options,
                                         const LoadControl& control) = 0;
};

/// Returns a runner for requests. Sends one request of the mix (the kind that a load draws first),
/// and checks its answer against the reference (if options.num_samples > 0, and the model can be
/// reproduced). Without samples the server is only asked by the method of the protocol. Borrows all
/// but the options. Errors are those of that request.
absl::StatusOr<std::unique_ptr<BenchRunner>> MakeRequestRunner(AttentionClient& client,
                                                               const RequestMix& mix,
                                                               const Protocol& protocol,
                                                               const LoadOptions& options);

/// Returns a runner for sessions. Runs one alone, and checks its answers as above. Borrows the
/// plan. Errors are those of that session.
absl::StatusOr<std::unique_ptr<BenchRunner>> MakeDecodeRunner(AttentionClient& client,
                                                              const DecodePlan& plan,
                                                              const LoadOptions& options);

}  // namespace attention
