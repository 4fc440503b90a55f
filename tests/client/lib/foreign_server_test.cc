// A load on a server that speaks the Open Inference Protocol and nothing else.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "client/load/report.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "proto/inference/open_inference.grpc.pb.h"
#include "tests/client/lib/loopback_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Answers its first input.
class EchoServer : public inference::GRPCInferenceService::Service {
 public:
  const std::string& address() const { return server_.address(); }
  int64_t num_calls() const { return num_calls_.load(); }

  grpc::Status ModelInfer(grpc::ServerContext*, const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response) override {
    ++num_calls_;
    if (request->model_name() != "anything") {
      return {grpc::StatusCode::NOT_FOUND, "unknown model"};
    }
    auto& output = *response->add_outputs();
    output.set_name("output");
    output.set_datatype(request->inputs(0).datatype());
    *output.mutable_shape() = request->inputs(0).shape();
    response->add_raw_output_contents(request->raw_input_contents(0));
    return grpc::Status::OK;
  }

 private:
  std::atomic<int64_t> num_calls_{0};
  LoopbackServer server_{*this};
};

class ForeignServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<BenchReport> Run(const std::string& model, const LoadOptions& options) {
    Workload workload;
    workload.tensors.push_back(
        std::make_unique<const Tensor>(SeededTensor(1, Dtype::kF32, {1, 6, 8})));
    workload.request.model = model;
    workload.request.input = HiddenStatesInput{workload.tensors[0].get()};
    const auto mix =
        RequestMix::OfLengths(std::move(workload), {"uniform:3..6", {3, 4, 5, 6}, {1, 1, 1, 1}});
    EXPECT_THAT(mix, IsOk());
    const auto client = AttentionClient::Connect({.connection = {.server = server_.address()}});
    const OpenInferenceProtocol protocol;
    const auto runner = MakeRequestRunner(**client, *mix, protocol, options);
    return runner.ok() ? RunBench(**runner, {.options = options}, {}) : runner.status();
  }

  LoadOptions Options() const {
    return {.connection = {.server = server_.address()},
            .concurrency = 2,
            .warmup = absl::ZeroDuration(),
            .duration = absl::InfiniteDuration(),
            .requests = 20,
            .timeout = absl::Minutes(2)};
  }

  EchoServer server_;
};

TEST_F(ForeignServerTest, IsAskedNothingButModelInfer) {
  LoadOptions open = Options();
  open.requests = 0;
  open.open_loop.emplace().arrivals.trace = std::make_shared<const ArrivalTrace>(
      ArrivalTrace{.path = "burst", .times = std::vector(20, std::chrono::nanoseconds(0))});
  for (const LoadOptions& options : {Options(), open}) {
    const auto report = Run("anything", options);
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->levels[0].result;
    EXPECT_EQ(result.latency_ns.count(), 20);
    EXPECT_GT(result.tokens, 3 * result.answers);
    EXPECT_GT(server_.num_calls(), result.answers);
    EXPECT_THAT(ToText(*report), HasSubstr("by the Open Inference Protocol"));
    EXPECT_THAT(ToText(*report), Not(HasSubstr("\nserver ")));
    EXPECT_FALSE(ToJson(*report).contains("phases_ms"));
    EXPECT_EQ(ToJson(*report)["options"]["protocol"], "oip");
  }
}

TEST_F(ForeignServerTest, RefusalsCarryItsWords) {
  EXPECT_THAT(Run("something", Options()), StatusIs(absl::StatusCode::kNotFound, "unknown model"));
}

}  // namespace
}  // namespace attention
