// `attend top`: what a server did between two readings, and the text that shows it.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/top/top_text.h"
#include "client/plot/token_text.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;

/// 100 answers of 10 ms, in 2 s.
v1::ServerStatistics Before() {
  v1::ServerStatistics statistics;
  statistics.set_uptime_ns(10 * kS);
  statistics.set_threads(4);
  statistics.set_succeeded(1000);
  statistics.set_queue_ns(7 * kS);
  v1::ModelStatistics& model = *statistics.add_models();
  model.set_model("gpt2");
  model.set_version(2);
  model.set_succeeded(1000);
  return statistics;
}

v1::ServerStatistics After() {
  v1::ServerStatistics statistics = Before();
  statistics.set_uptime_ns(12 * kS);
  statistics.set_succeeded(1100);
  statistics.set_refused(6);
  statistics.set_failed(2);
  statistics.set_receive_ns(100 * 1 * kMs);
  statistics.set_queue_ns(7 * kS + 100 * 2 * kMs);
  statistics.set_compute_ns(100 * 6 * kMs);
  statistics.set_send_ns(100 * 1 * kMs);
  statistics.set_batches(50);
  statistics.set_batch_requests(100);
  statistics.set_batch_tokens(4000);
  statistics.set_busy_ns(kS);
  statistics.set_cpu_ns(3 * kS);
  statistics.mutable_models(0)->set_succeeded(1100);
  statistics.mutable_models(0)->set_tokens(4000);
  v1::ModelStatistics& other = *statistics.add_models();
  other.set_model("bert");
  other.set_version(1);
  other.set_failed(2);
  return statistics;
}

TopView ViewOf(const v1::ServerStatistics& before, const v1::ServerStatistics& after) {
  return {.server = "127.0.0.1:8001",
          .time = "21:30:05",
          .statistics = after,
          .change = ChangeBetween(before, after, absl::Seconds(2))};
}

TEST(ChangeBetweenTest, SubtractsCountsAndTimes) {
  const v1::ServerStatistics change = ChangeBetween(Before(), After(), absl::Seconds(2));
  EXPECT_EQ(change.uptime_ns(), 2 * kS);
  EXPECT_EQ(change.succeeded(), 100);
  EXPECT_EQ(change.queue_ns(), 100 * 2 * kMs);
  ASSERT_EQ(change.models_size(), 2);
  EXPECT_EQ(change.models(0).succeeded(), 100);
  EXPECT_EQ(change.models(0).version(), 2);
  EXPECT_EQ(change.models(1).failed(), 2) << "a model that came in between";
}

TEST(ChangeBetweenTest, OfAServerThatStartedAnewIsAllSinceItsStart) {
  v1::ServerStatistics young;
  young.set_uptime_ns(4 * kS);
  young.set_succeeded(8);
  EXPECT_EQ(ChangeBetween(After(), young, absl::Seconds(5)).succeeded(), 8);
}

TEST(ChangeBetweenTest, AServerThatIsYoungerThanTheLastReadingStartedAnew) {
  v1::ServerStatistics before, after;
  before.set_uptime_ns(2 * kS);
  before.set_succeeded(500);
  after.set_uptime_ns(9 * kS);
  after.set_succeeded(8);
  EXPECT_EQ(ChangeBetween(before, after, absl::Seconds(12)).succeeded(), 8);
  after.set_uptime_ns(14 * kS);
  after.set_succeeded(508);
  EXPECT_EQ(ChangeBetween(before, after, absl::Seconds(12)).succeeded(), 8);
}

TEST(TopTextTest, AServerThatDoesNotAnswerLeavesItsLastValues) {
  const absl::Status status = absl::UnavailableError("server 127.0.0.1:8001: no connection");
  const std::string text =
      NoAnswerText(ViewOf(Before(), After()), status, TerminalSize{.columns = 40, .rows = 24});
  EXPECT_THAT(text, AllOf(HasSubstr("no answer: server\n127.0.0.1:8001: no connection\n\n"),
                          HasSubstr("requests   50.0/s")));
  EXPECT_EQ(NoAnswerText({.time = "21:30:05"}, status, std::nullopt),
            "attend top  21:30:05  no answer: server 127.0.0.1:8001: no connection\n");
}

TEST(TopTextTest, ShowsWhatTheServerDoes) {
  const std::string text = TopText(ViewOf(Before(), After()));
  EXPECT_THAT(text,
              AllOf(HasSubstr("127.0.0.1:8001"), HasSubstr("up 12s  21:30:05\n"),
                    HasSubstr("requests   50.0/s   refused 3.00/s   failed 1.00/s\n"),
                    HasSubstr("latency    mean 10.0   receive 1.00   queue 2.00   compute 6.00"),
                    HasSubstr("batches    25.0/s   of 2.00 requests, 80.0 tokens   2000 tokens/s"),
                    HasSubstr("threads    4, busy 50 %   1.50 cores\n")));
  EXPECT_THAT(text, ContainsRegex("\ngpt2 +2 +50.0 +0 +0 +0 +2000 +1100\n"));
  EXPECT_LT(text.find("\ngpt2 "), text.find("\nbert ")) << "most requests first";
}

TEST(TopTextTest, WithoutAnswersThereAreNoTimes) {
  v1::ServerStatistics later = After();
  later.set_uptime_ns(14 * kS);
  EXPECT_THAT(TopText(ViewOf(After(), later)),
              AllOf(HasSubstr("requests   0/s"), HasSubstr("latency    mean -   receive -"),
                    HasSubstr("batches    0/s   of - requests")));
}

TEST(TopTextTest, FitsTheTerminal) {
  const std::vector<std::string> lines =
      absl::StrSplit(FitTo({.columns = 20, .rows = 5}, TopText(ViewOf(Before(), After()))), '\n');
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    EXPECT_LE(ColumnsOf(line), 20) << line;
  }
}

TEST(TopTextTest, ALongNameMovesNoNumbers) {
  v1::ServerStatistics after = After();
  after.mutable_models(0)->set_model(std::string(100, 'n'));
  const std::vector<std::string> lines = absl::StrSplit(TopText(ViewOf(Before(), after)), '\n');
  for (const std::string& line : lines) {
    EXPECT_LE(ColumnsOf(line), 110) << line;
  }
}

TEST(TopTextTest, NamesDoNotControlTheTerminal) {
  v1::ServerStatistics after = After();
  after.mutable_models(0)->set_model("\x1b[2Jevil\n");
  EXPECT_THAT(TopText(ViewOf(Before(), after)),
              AllOf(HasSubstr("[2Jevil"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace attention
