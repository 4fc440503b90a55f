// Streams on which nothing happens, by a clock of the test.
#include "server/services/calls/idle_watch.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

class FakeStream final : public IdleStream {
 public:
  explicit FakeStream(TimePoint touched) : touched_(touched) {}
  void Register(IdleWatch& watch, const std::shared_ptr<FakeStream>& self) {
    registration_.Register(watch, self);
  }
  void EndIfIdleSince(TimePoint before, const absl::Status& reason) noexcept override {
    if (touched_ <= before) {
      EndWhenAnswered(reason);
    }
    ++asked;
  }
  void EndWhenAnswered(const absl::Status& reason) noexcept override {
    if (!ended) {
      why = reason;
      ended = true;
    }
  }

  std::atomic<bool> ended = false;
  std::atomic<int> asked = 0;
  absl::Status why;  // written before `ended` by one thread

 private:
  const TimePoint touched_;
  IdleWatch::Registration registration_;
};

std::shared_ptr<FakeStream> NewStream(IdleWatch& watch, TimePoint touched) {
  auto stream = std::make_shared<FakeStream>(touched);
  stream->Register(watch, stream);
  return stream;
}

TEST(IdleWatchTest, EndsWhatWasIdleForTheWholeTime) {
  TimePoint now(std::chrono::hours(5));
  IdleWatch watch(absl::Hours(1), [&] { return now; });
  const auto stream = NewStream(watch, now);
  const auto later = NewStream(watch, now + std::chrono::minutes(1));
  now += std::chrono::minutes(59);
  watch.Check();
  EXPECT_FALSE(stream->ended);
  now += std::chrono::minutes(1);
  watch.Check();
  EXPECT_TRUE(stream->ended);
  EXPECT_FALSE(later->ended);
}

TEST(IdleWatchTest, ForgetsStreamsThatEnd) {
  IdleWatch watch(absl::Hours(1));
  auto first = NewStream(watch, TimePoint());
  const auto second = NewStream(watch, TimePoint());
  first.reset();
  watch.Check();
  EXPECT_EQ(second->asked, 1);
}

TEST(IdleWatchTest, AsksByItselfWhileStreamsAreOpen) {
  IdleWatch watch(absl::Milliseconds(16));
  watch.Start();
  const auto stream = NewStream(watch, TimePoint());
  EXPECT_TRUE(Eventually([&] { return stream->asked >= 2; }));
}

TEST(IdleWatchTest, NeverEndsAnythingWhenItIsOff) {
  IdleWatch watch(absl::InfiniteDuration());
  watch.Start();
  const auto stream = NewStream(watch, TimePoint());
  watch.Check();
  EXPECT_EQ(stream->asked, 0);
}

TEST(IdleWatchTest, EndsAllStreamsForAReason) {
  for (const absl::Duration timeout : {absl::Hours(1), absl::InfiniteDuration()}) {
    IdleWatch watch(timeout);
    const auto stream = NewStream(watch, std::chrono::steady_clock::now());
    watch.EndAll(absl::UnavailableError("the reason"));
    EXPECT_EQ(stream->why, absl::UnavailableError("the reason"));
  }
}

}  // namespace
}  // namespace attention
