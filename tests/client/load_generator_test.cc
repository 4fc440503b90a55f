// The load generator against the real server.
#include "client/load/load_generator.h"

#include <memory>

#include "client/load/bench.h"
#include "client/load/workload.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Pair;

ServerOptions OneThread() {
  ServerOptions options;
  options.threads = 1;
  return options;
}

class LoadGeneratorTest : public ::testing::Test {
 protected:
  LoadGeneratorTest() {
    request_.model = "demo";
    request_.input = HiddenStatesInput{&rows_, {}, nullptr, {}};
  }

  LoadOptions Options() const {
    return {.server = server_.address(),
            .concurrency = 3,
            .connections = 2,
            .warmup = absl::Milliseconds(50),
            .duration = absl::Milliseconds(400),
            .timeout = absl::Seconds(5),
            .num_samples = 3};
  }

  InProcessServer server_{OneThread()};
  const std::unique_ptr<AttentionClient> client_ =
      *AttentionClient::Connect({.server = server_.address(), .timeout = absl::Seconds(10)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {2, 5, 512});
  AttendRequest request_;
};

TEST_F(LoadGeneratorTest, AnswersAreCountedSampledAndChecked) {
  for (const bool is_streaming : {false, true}) {
    const auto report = RunBench(*client_, request_, is_streaming, Options());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->result;
    EXPECT_GT(result.latency_ns.count(), 3);
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? result.latency_ns.count() : 0);
    EXPECT_GE(result.answered_bytes,
              result.latency_ns.count() * static_cast<int64_t>(rows_.size_bytes()));
    EXPECT_GT(result.compute_ns, 0);
    EXPECT_GE(result.batch_requests, result.latency_ns.count());
    EXPECT_EQ(report->tokens_per_request, 10);
    ASSERT_TRUE(report->verification.has_value());
    EXPECT_TRUE(report->verification->reference.has_value());
    EXPECT_THAT(report->verification->sampled, AllOf(Ge(1), Le(3)));
    EXPECT_EQ(report->verification->identical, report->verification->sampled);
  }
}

TEST_F(LoadGeneratorTest, GivesUpWhenNothingButErrorsCome) {
  request_.model = "absent";
  const auto load = EncodeLoad(request_, /*is_streaming=*/false);
  ASSERT_THAT(load, IsOk());
  LoadOptions options = Options();
  options.duration = absl::Seconds(60);
  const LoadResult result = RunClosedLoop(*load, options);
  EXPECT_TRUE(result.gave_up);
  EXPECT_EQ(result.latency_ns.count(), 0);
  EXPECT_THAT(result.errors, ElementsAre(Pair("NOT_FOUND", Ge(200))));
  EXPECT_THAT(result.error_texts, ElementsAre(Pair("NOT_FOUND", HasSubstr("\"absent\""))));
}

TEST_F(LoadGeneratorTest, AFirstRequestThatFailsEndsTheRun) {
  request_.model = "absent";
  EXPECT_THAT(RunBench(*client_, request_, false, Options()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

TEST_F(LoadGeneratorTest, ARefusedStreamIsAnErrorOfThatStream) {
  request_.model = "absent";
  const auto load = EncodeLoad(request_, /*is_streaming=*/true);
  ASSERT_THAT(load, IsOk());
  LoadOptions options = Options();
  options.duration = absl::Seconds(60);
  EXPECT_THAT(RunClosedLoop(*load, options).errors, ElementsAre(Pair("NOT_FOUND", Ge(200))));
}

}  // namespace
}  // namespace attention
