// Messages that take long, tick by tick.
#include "server/services/calls/receive_watch.h"

#include <optional>

#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

class FakeCall final : public MessageReceiver, public std::enable_shared_from_this<FakeCall> {
 public:
  FakeCall(ReceiveWatch& watch, std::string holder)
      : reception_(watch), holder_(std::move(holder)) {}

  void Begin(int64_t max_bytes) { reception_.Begin(weak_from_this(), max_bytes); }
  bool BeginAnswer() { return reception_.BeginAnswer(weak_from_this(), 0, holder_); }
  /// The message is whole; or the read failed, as it does after the call has ended.
  bool End() { return reception_.End(); }

  std::string Holder() const override { return holder_; }
  void StopReceiving(const absl::Status& status) noexcept override { stopped_ = status; }
  const std::optional<absl::Status>& stopped() const { return stopped_; }

 private:
  Reception reception_;
  const std::string holder_;
  std::optional<absl::Status> stopped_;
};

using Calls = std::vector<std::shared_ptr<FakeCall>>;

class ReceiveWatchTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeCall> Call(const std::string& holder, int64_t max_bytes = 0) {
    auto call = std::make_shared<FakeCall>(watch_, holder);
    call->Begin(max_bytes);
    return call;
  }
  void Tick(int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      watch_.Tick();
    }
  }

  ReceiveWatch watch_{/*max_units=*/64};
};

int64_t CountStopped(const Calls& calls) {
  return std::count_if(calls.begin(), calls.end(),
                       [](const auto& call) { return call->stopped().has_value(); });
}

TEST_F(ReceiveWatchTest, AMessageThatIsWholeWithinATickCostsNothing) {
  for (int i = 0; i < 1000; ++i) {
    const auto call = Call("a");
    EXPECT_TRUE(call->End());
  }
  const auto call = Call("a");
  watch_.Tick();
  EXPECT_EQ(watch_.used_units(), 0);
  EXPECT_TRUE(call->End());
  EXPECT_EQ(watch_.num_watched(), 0);
}

TEST_F(ReceiveWatchTest, AMessageMayTakeTicksByItsPermittedSize) {
  const auto small = Call("a", 4096);
  const auto large = Call("b", 5 * ReceiveWatch::kBytesPerTick);
  Tick(ReceiveWatch::kBaseTicks);
  EXPECT_FALSE(small->stopped().has_value());
  watch_.Tick();
  EXPECT_THAT(*small->stopped(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          HasSubstr("whole message within 20 s")));
  Tick(4);
  EXPECT_FALSE(large->stopped().has_value());
  watch_.Tick();
  EXPECT_THAT(*large->stopped(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          HasSubstr("whole message within 25 s")));
  EXPECT_FALSE(small->End());
  EXPECT_FALSE(large->End());
  EXPECT_EQ(watch_.used_units(), 0);
}

TEST_F(ReceiveWatchTest, SlowOnesOfOneHolderLeaveRoomForOthers) {
  Calls slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(Call("attacker", int64_t{256} << 20));
  }
  Tick(2);
  EXPECT_EQ(CountStopped(slow), 100 - 32) << "one alone may have half of 64 units";
  EXPECT_EQ(watch_.used_units(), 32);
  for (const auto& call : slow) {
    if (call->stopped().has_value()) {
      EXPECT_THAT(*call->stopped(),
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("attacker")));
      EXPECT_GT(RefusalOf(*call->stopped())->retry_after_ms, 0);
    }
  }
  // An honest caller's, which takes a while as well.
  const auto honest = Call("honest");
  Tick(4);
  EXPECT_FALSE(honest->stopped().has_value());
  EXPECT_TRUE(honest->End());
}

TEST_F(ReceiveWatchTest, OneThatIsStoppedGivesBackWhatItHeld) {
  const auto call = Call("a");
  Tick(10);
  EXPECT_EQ(watch_.used_units(), 9);
  EXPECT_TRUE(call->End());
  EXPECT_EQ(watch_.used_units(), 0);
}

TEST_F(ReceiveWatchTest, AnswersThatNobodyTakesAreBoundedAtOnceAndGivenUpInTime) {
  const auto answer = [this](const std::string& holder, bool has_unit) {
    auto call = std::make_shared<FakeCall>(watch_, holder);
    EXPECT_EQ(call->BeginAnswer(), has_unit) << holder;
    return call;
  };
  Calls held;
  for (int i = 0; i < 32; ++i) {
    held.push_back(answer("a", true));
  }
  EXPECT_TRUE(answer("a", false)->End()) << "half of the units are left for others";
  const auto other = answer("b", true);
  Tick(2);
  EXPECT_GT(CountStopped(held), 0) << "no further unit is free for some";
  EXPECT_TRUE(other->End());
  Tick(ReceiveWatch::kBaseTicks - 1);
  EXPECT_EQ(CountStopped(held), 32);
  held.clear();
  EXPECT_EQ(watch_.used_units(), 0);
}

}  // namespace
}  // namespace attention
