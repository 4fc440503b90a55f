// Tags without a queue: their events are delivered by hand.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/services/calls/completion_threads.h"

namespace attention {
namespace {

class TaggedCall final : public std::enable_shared_from_this<TaggedCall> {
 public:
  explicit TaggedCall(std::vector<std::string>& events) : events_(events) {}
  ~TaggedCall() { events_.emplace_back("destroyed"); }

  void Await() {
    ArmForClient(on_done_, on_request_, [](void*) {});
  }
  CompletionTag& request() { return on_request_; }
  CompletionTag& done() { return on_done_; }
  void DeliverDoneWhileHandlingRequest() { comes_and_goes_ = true; }
  void FailOnRequest() { fails_ = true; }
  void OnFailure(const absl::Status&) noexcept { events_.emplace_back("failure"); }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    events_.emplace_back("request begins");
    if (comes_and_goes_) {
      done().Deliver(true);
    }
    if (fails_) {
      throw std::bad_alloc();
    }
    events_.emplace_back("request ends");
  }
  void OnDone(bool ok) { events_.emplace_back(ok ? "done" : "done, not ok"); }

  std::vector<std::string>& events_;
  bool comes_and_goes_ = false;
  bool fails_ = false;
  CallTag<TaggedCall> on_request_{this, &TaggedCall::OnRequest};
  CallTag<TaggedCall> on_done_{this, &TaggedCall::OnDone};
};

using Events = std::vector<std::string>;

class CompletionTagTest : public ::testing::Test {
 protected:
  /// Returns a call that waits for a client; only its tags own it.
  TaggedCall& Await() {
    const auto call = std::make_shared<TaggedCall>(events_);
    call->Await();
    return *call;
  }

  Events events_;
};

TEST_F(CompletionTagTest, TheEndIsHandledAfterTheRequest) {
  TaggedCall& call = Await();
  call.request().Deliver(true);
  call.done().Deliver(true);
  EXPECT_EQ(events_, (Events{"request begins", "request ends", "done", "destroyed"}));
}

// A client that comes and goes at once: the end arrives before the request, or while it is handled.
TEST_F(CompletionTagTest, AnEndThatComesFirstWaitsForTheRequest) {
  TaggedCall& call = Await();
  call.done().Deliver(true);
  EXPECT_TRUE(events_.empty());
  call.request().Deliver(true);
  EXPECT_EQ(events_, (Events{"request begins", "request ends", "done", "destroyed"}));
}

TEST_F(CompletionTagTest, AnEndThatComesMeanwhileWaitsForTheRequest) {
  TaggedCall& call = Await();
  call.DeliverDoneWhileHandlingRequest();
  call.request().Deliver(true);
  EXPECT_EQ(events_, (Events{"request begins", "request ends", "done", "destroyed"}));
}

TEST_F(CompletionTagTest, AnEndWaitsForARequestThatFails) {
  TaggedCall& call = Await();
  call.DeliverDoneWhileHandlingRequest();
  call.FailOnRequest();
  call.request().Deliver(true);
  EXPECT_EQ(events_, (Events{"request begins", "failure", "done", "destroyed"}));
}

TEST_F(CompletionTagTest, ACallThatNoClientMakesIsDestroyed) {
  TaggedCall& call = Await();
  call.request().Deliver(false);
  EXPECT_EQ(events_, Events{"destroyed"});
}

}  // namespace
}  // namespace attention
