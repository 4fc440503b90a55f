// `attend top`: rates between two looks, and the screen that shows them.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/top/screen_text.h"
#include "client/top/top_screen.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;

/// 100 answers of 10 ms, of which all but one took 1 to 10 ms, in 2 s.
v1::ServerStatistics Before() {
  v1::ServerStatistics statistics;
  statistics.set_uptime_ns(10 * kS);
  statistics.set_threads(4);
  statistics.set_succeeded(1000);
  statistics.set_queue_ns(7 * kS);
  for (const int64_t bound : {1 * kMs, 10 * kMs, 100 * kMs}) {
    statistics.mutable_latency()->add_bounds_ns(bound);
  }
  for (const int64_t count : {500, 500, 0, 0}) {
    statistics.mutable_latency()->add_counts(count);
  }
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
  statistics.mutable_latency()->set_counts(1, 599);
  statistics.mutable_latency()->set_counts(3, 1);
  statistics.mutable_models(0)->set_succeeded(1100);
  statistics.mutable_models(0)->set_tokens(4000);
  v1::ModelStatistics& other = *statistics.add_models();
  other.set_model("bert");
  other.set_version(1);
  other.set_failed(2);
  return statistics;
}

TopView ViewOf(const v1::ServerStatistics& before, const v1::ServerStatistics& after) {
  TopView view{.server = "127.0.0.1:8001", .time = "21:30:05"};
  view.statistics = after;
  view.rates = RatesBetween(before, after);
  view.history = {{10, 0.1, 5}, {50, 0.5, 10}};
  return view;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

TEST(TopRatesTest, AreDifferencesOverTheServersTime) {
  const TopRates rates = RatesBetween(Before(), After());
  EXPECT_EQ(rates.interval_s, 2);
  EXPECT_EQ(rates.answered_per_s, 50);
  EXPECT_EQ(rates.refused_per_s, 3);
  EXPECT_EQ(rates.failed_per_s, 1);
  EXPECT_THAT(rates.times.queue_ms, Optional(2.0));
  EXPECT_THAT(rates.times.total_ms(), Optional(10.0));
  EXPECT_EQ(rates.batches_per_s, 25);
  EXPECT_THAT(rates.batch_requests, Optional(2.0));
  EXPECT_THAT(rates.batch_tokens, Optional(80.0));
  EXPECT_EQ(rates.tokens_per_s, 2000);
  EXPECT_EQ(rates.busy_share, 0.5);
  EXPECT_EQ(rates.cores, 1.5);
  ASSERT_THAT(rates.models, SizeIs(2));
  EXPECT_EQ(rates.models[0].answered_per_s, 50);
  EXPECT_EQ(rates.models[0].tokens_per_s, 2000);
  EXPECT_EQ(rates.models[1].failed_per_s, 1) << "a model that came in between";
}

TEST(TopRatesTest, PercentilesAreOfWhatWasAnsweredInBetween) {
  const TopRates rates = RatesBetween(Before(), After());
  // 99 answers between 1 and 10 ms, and one beyond 100 ms.
  EXPECT_THAT(rates.times.p50_ms, Optional(DoubleNear(1 + 9 * 50.0 / 99, 1e-9)));
  EXPECT_THAT(rates.times.p99_ms, Optional(DoubleNear(10, 1e-9)));
  v1::ServerStatistics later = After();
  later.set_uptime_ns(14 * kS);
  later.set_succeeded(1101);
  later.mutable_latency()->set_counts(3, 2);
  EXPECT_THAT(RatesBetween(After(), later).times.p50_ms, Optional(100.0)) << "the last bound";
}

TEST(TopRatesTest, WithoutAnswersThereAreNoTimes) {
  v1::ServerStatistics later = After();
  later.set_uptime_ns(14 * kS);
  const TopRates rates = RatesBetween(After(), later);
  EXPECT_EQ(rates.answered_per_s, 0);
  EXPECT_EQ(rates.times.total_ms(), std::nullopt);
  EXPECT_EQ(rates.times.p50_ms, std::nullopt);
  EXPECT_EQ(rates.batch_requests, std::nullopt);
}

TEST(TopRatesTest, AServerThatStartedAnewCountsFromItsStart) {
  v1::ServerStatistics young;
  young.set_uptime_ns(4 * kS);
  young.set_succeeded(8);
  EXPECT_EQ(RatesBetween(After(), young).answered_per_s, 2);
}

TEST(TopScreenTest, ShowsWhatTheServerDoes) {
  const std::string text = TopText(ViewOf(Before(), After()), {.width = 100});
  EXPECT_THAT(text, AllOf(HasSubstr("127.0.0.1:8001"), HasSubstr("up 12s"), HasSubstr("21:30:05\n"),
                          HasSubstr("requests  50.0/s   refused 3.00/s   failed 1.00/s"),
                          HasSubstr("mean 10.0   p50 5.55   p99 10.0 ms"),
                          HasSubstr("receive 1.00   queue 2.00   compute 6.00   send 1.00 ms"),
                          HasSubstr("25.0/s   of 2.00 requests, 80.0 tokens   2000 tokens/s"),
                          HasSubstr("4, busy 50 %   1.50 cores"), HasSubstr("▂█\n")));
  EXPECT_THAT(text, HasSubstr("gpt2     2     50.0        0        0        -        0     2000"));
}

TEST(TopScreenTest, FitsEveryTerminal) {
  TopView view = ViewOf(Before(), After());
  view.trouble = std::string(300, 'x');
  for (int i = 0; i < 30; ++i) {
    view.rates.models.push_back({.name = absl::StrCat("a-model-with-a-long-näme-", i)});
  }
  for (int width = 1; width <= 200; width += width < 30 ? 1 : 7) {
    for (const int height : {1, 5, 24, 60}) {
      const std::vector<std::string> lines =
          LinesOf(TopText(view, {.width = width, .height = height}));
      EXPECT_THAT(lines, SizeIs(Le(height)));
      for (const std::string& line : lines) {
        EXPECT_LE(Columns(line), width) << line;
      }
    }
  }
}

TEST(TopScreenTest, FillsAScreenAndSaysHowManyModelsItHides) {
  TopView view = ViewOf(Before(), After());
  for (int i = 0; i < 30; ++i) {
    view.rates.models.push_back({.name = absl::StrCat("model-", i)});
  }
  const TopLayout layout = {.width = 80, .height = 24, .is_screen = true};
  const std::vector<std::string> lines = LinesOf(TopText(view, layout));
  EXPECT_THAT(lines, SizeIs(24));
  EXPECT_THAT(lines.back(), HasSubstr("q quit"));
  EXPECT_THAT(TopText(view, layout), HasSubstr("MODEL (+21)"));
  EXPECT_THAT(LinesOf(TopText(view, {.width = 80, .height = 6, .is_screen = true})).back(),
              HasSubstr("q quit"));
  view.rates.models.resize(1);
  EXPECT_THAT(LinesOf(TopText(view, layout)), SizeIs(24));
}

TEST(TopScreenTest, ModelsAreInTheOrderThatIsAskedFor) {
  TopView view = ViewOf(Before(), After());
  const auto is_first = [&](const std::string& a, const std::string& b) {
    const std::string text = TopText(view, {.width = 120});
    return text.find(a) < text.find(b);
  };
  EXPECT_TRUE(is_first("gpt2", "bert"));
  view.order = TopOrder::kFailures;
  EXPECT_TRUE(is_first("bert", "gpt2"));
  view.order = TopOrder::kName;
  EXPECT_TRUE(is_first("bert", "gpt2"));
  EXPECT_EQ(NextOrder(TopOrder::kRate), TopOrder::kTime);
  EXPECT_EQ(NextOrder(TopOrder::kName), TopOrder::kRate);
}

TEST(TopScreenTest, NamesDoNotControlTheTerminal) {
  TopView view = ViewOf(Before(), After());
  view.rates.models[0].name = "\x1b[2Jevil\n\xc2\x9b";
  const std::string text = TopText(view, {.width = 120});
  EXPECT_THAT(text, AllOf(HasSubstr("?[2Jevil??"), Not(HasSubstr("\x1b"))));
}

TEST(TopScreenTest, SaysWhyThereIsNoAnswer) {
  TopView view = ViewOf(Before(), After());
  view.trouble = "server gone";
  view.is_paused = true;
  EXPECT_THAT(TopText(view, {.width = 80}),
              AllOf(HasSubstr("no answer: server gone"), HasSubstr("PAUSED")));
}

TEST(TopScreenTest, JsonHasTheNumbers) {
  const nlohmann::json json = TopJson(ViewOf(Before(), After()));
  EXPECT_EQ(json["requests"]["answered_per_s"], 50);
  EXPECT_EQ(json["latency_ms"]["mean"], 10);
  EXPECT_EQ(json["models"][0]["name"], "gpt2");
  EXPECT_TRUE(json["models"][1]["latency_ms"]["mean"].is_null());
}

TEST(SparklineTest, IsAlignedRightAndShowsTheLeastOfSomething) {
  EXPECT_EQ(Sparkline({0, 0.01, 4, 8}, 6, 0, true), "   ▁▄█");
  EXPECT_EQ(Sparkline({0, 0.01, 4, 8}, 6, 0, false), "   .=@");
  EXPECT_EQ(Sparkline({1, 2, 3, 4}, 2, 8, false), "-=");
  EXPECT_EQ(Sparkline({}, 3, 0, true), "   ");
  EXPECT_EQ(Sparkline({0, 0}, 2, 0, true), "  ");
}

TEST(ScreenTextTest, NumbersHaveThreeDigits) {
  const std::pair<double, const char*> cases[] = {
      {0, "0"}, {0.123, "0.12"}, {9.99, "9.99"}, {9.999, "10.0"}, {99.96, "100"}, {12345, "12345"}};
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(NumberText(value), text);
  }
  EXPECT_EQ(NumberText(std::nullopt), "-");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(3 << 20), "3.0 MiB");
  EXPECT_EQ(UptimeText(3 * 86400 * kS + 4 * 3600 * kS), "3d 4h");
  EXPECT_EQ(UptimeText(3661 * kS), "1h 01m");
  EXPECT_EQ(UptimeText(61 * kS), "1m 01s");
  EXPECT_EQ(Cut("näme", 3), "nä~");
  EXPECT_EQ(PadLeft("7", 3), "  7");
}

}  // namespace
}  // namespace attention
