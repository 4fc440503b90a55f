#include "server/observability/request_counts.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

RequestRecord Answered(const std::string& model, int64_t version = 1) {
  return {.rpc = "Attend",
          .model = model,
          .model_version = version,
          .total_ns = 60'000,
          .receive_ns = 10'000,
          .queue_ns = 20'000,
          .compute_ns = 25'000,
          .send_ns = 5'000,
          .tokens = 7,
          .batch_id = 3,
          .batch_requests = 2,
          .request_bytes = 100};
}

RequestRecord Failed(const std::string& model, const absl::Status& status) {
  return {.rpc = "Attend", .model = model, .status = status, .total_ns = 1'000};
}

int64_t CountOf(const BucketCounts& histogram) {
  return std::accumulate(histogram.counts().begin(), histogram.counts().end(), int64_t{0});
}

TEST(RequestCounterTest, SumsWhatWasAnsweredApartFromWhatWasNot) {
  RequestCounter counter;
  counter.Count(Answered("a"));
  counter.Count(Answered("b"));
  counter.Count(Failed("a", absl::InvalidArgumentError("")));
  counter.Count(Failed("a", absl::UnavailableError("")));
  const RequestCounts total = counter.total();
  EXPECT_EQ(total.succeeded, 2);
  EXPECT_EQ(total.failed, 1);
  EXPECT_EQ(total.refused, 1);
  EXPECT_EQ(total.queue_ns, 40'000);
  EXPECT_EQ(total.tokens, 14);
  EXPECT_EQ(total.executions, 1.0);
  EXPECT_EQ(total.unsuccessful_ns, 2'000);
  EXPECT_EQ(total.received_bytes, 200);
  EXPECT_EQ(CountOf(total.latency), 2);
  EXPECT_EQ(total.latency.sum(), 120'000);
}

TEST(RequestCounterTest, TellsVersionsOfAModelApartAndJoinsThemInSeries) {
  RequestCounter counter;
  counter.Count(Answered("a", 1));
  counter.Count(Answered("a", 2));
  EXPECT_THAT(counter.by_model(), ElementsAre(Key(std::pair("a", 1)), Key(std::pair("a", 2))));
  const auto series = counter.series();
  ASSERT_THAT(series, ElementsAre(Key(RequestCounter::Key("Attend", "a", absl::StatusCode::kOk))));
  EXPECT_EQ(series.begin()->second.counts.succeeded, 2);
  EXPECT_EQ(CountOf(series.begin()->second.queue), 2);
}

TEST(RequestCounterTest, PhasesThatARequestDidNotComeToAreNotCounted) {
  RequestCounter counter;
  counter.Count(Failed("a", absl::InvalidArgumentError("")));
  const auto all = counter.series();
  const RequestSeries& series = all.begin()->second;
  EXPECT_EQ(CountOf(series.counts.latency), 1);
  EXPECT_EQ(CountOf(series.queue), 0);
  EXPECT_EQ(CountOf(series.compute), 0);
  EXPECT_EQ(CountOf(series.send), 0);
  EXPECT_EQ(CountOf(series.first_block), 0);
}

TEST(RequestCounterTest, CountsRefusalsByReason) {
  RequestCounter counter;
  counter.Count(Failed("", absl::UnavailableError("")));
  counter.Count(Failed("", Refuse(absl::StatusCode::kDeadlineExceeded, "too late",
                                  {.reason = RefusalReason::kDeadline})));
  counter.Count(Failed("", absl::DeadlineExceededError("passed while it was computed")));
  counter.Count(Failed("", absl::ResourceExhaustedError("too large")));
  counter.Count(Failed("", Refuse(absl::StatusCode::kResourceExhausted, "full",
                                  {.reason = RefusalReason::kQueueBytes})));
  counter.Count(Failed("", absl::NotFoundError("no refusal")));
  // limit, queue_requests, queue_bytes, queue_wait, reply_bytes, tenant_share, deadline,
  // unavailable
  EXPECT_THAT(counter.refused(), ElementsAre(1, 0, 1, 0, 0, 0, 1, 1));
}

TEST(RequestCounterTest, ModelsThatComeAndGoDoNotMakeSeriesWithoutEnd) {
  RequestCounter counter;
  for (size_t i = 0; i < RequestCounter::kMaxSeries + 100; ++i) {
    counter.Count(Answered(absl::StrCat("model-", i)));
  }
  EXPECT_EQ(counter.series().size(), RequestCounter::kMaxSeries + 1);
  EXPECT_EQ(counter.by_model().at({RequestCounter::kOtherModels, 0}).succeeded, 100);
  EXPECT_EQ(counter.total().succeeded, static_cast<int64_t>(RequestCounter::kMaxSeries) + 100);
}

}  // namespace
}  // namespace attention
