// Completion queues with threads. (The threads of the callback API sleep when idle, which delays
// the next call.)
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/runtime/contain.h"
#include "server/log/log.h"

namespace attention {

/// The object that a tag of a completion queue points to.
class CompletionTag {
 public:
  /// Delivers the event, with `ok` as grpc::CompletionQueue::Next gives it. Called by a completion
  /// thread.
  void Deliver(bool ok) {
    is_armed_.load(std::memory_order_acquire);
    OnEvent(ok);
  }

 protected:
  ~CompletionTag() = default;

  /// Handles the event. Does not block. Exceptions are logged only.
  virtual void OnEvent(bool ok) = 0;
  void SetArmed() { is_armed_.store(true, std::memory_order_release); }

 private:
  /// Repeats an ordering that the queue guarantees already, in a library that ThreadSanitizer
  /// cannot analyse: code before SetArmed happens before Deliver.
  std::atomic<bool> is_armed_ = false;
};

/// A tag that calls a member function of a call, and keeps the call alive during the operation.
/// Call derives from std::enable_shared_from_this.
///
/// With Follow, the event of one tag is handled after that of another, never beside it. An
/// exception of the function becomes Call::OnFailure(status), which ends this call only, once.
template <typename Call>
class CallTag final : public CompletionTag {
 public:
  CallTag(Call* call, void (Call::*handler)(bool ok)) : call_(call), handler_(handler) {}

  /// Returns the tag to start one operation with.
  void* Arm() {
    keep_alive_ = call_->shared_from_this();
    SetArmed();
    return static_cast<CompletionTag*>(this);
  }
  /// Releases the call. REQUIRES: the operation was not started, or will never complete.
  void Disarm() { keep_alive_.reset(); }
  /// Makes this tag's event wait until that of `leader` is handled. If it comes earlier, the
  /// leader's thread handles it afterwards. REQUIRES: neither tag is armed; each is armed once; the
  /// two belong to one call.
  void Follow(CallTag& leader) {
    leader.follower_ = this;
    is_follower_ = true;
  }
  /// Calls start(tag), which starts one operation. If that throws, the tag is not armed any more.
  template <typename Start>
  void ArmFor(Start start) {
    void* const tag = Arm();
    try {
      start(tag);
    } catch (...) {
      Disarm();
      throw;
    }
  }

 private:
  void OnEvent(bool ok) override {
    if (is_follower_) {
      ok_ = ok;
      HandleAsSecond();
      return;
    }
    CallTag* const follower = follower_;
    const std::shared_ptr<void> keep_alive = follower != nullptr ? keep_alive_ : nullptr;
    Handle(ok);
    if (follower != nullptr) {
      follower->HandleAsSecond();
    }
  }

  /// Called for the follower when its event has come, and when its leader's is handled: the second
  /// of these calls handles the follower's event.
  void HandleAsSecond() {
    if (num_ready_.fetch_add(1) == 1) {
      Handle(ok_);
    }
  }

  void Handle(bool ok) {
    const std::shared_ptr<void> keep_alive = std::move(keep_alive_);
    const absl::Status status = ContainVoid("the call", [&] { (call_->*handler_)(ok); });
    if (!status.ok()) {
      call_->OnFailure(status);
    }
  }

  Call* const call_;
  void (Call::* const handler_)(bool ok);
  std::shared_ptr<void> keep_alive_;
  CallTag* follower_ = nullptr;  // its event waits for this tag's
  bool is_follower_ = false;
  bool ok_ = false;                 // of a follower's event
  std::atomic<int> num_ready_ = 0;  // of a follower: its event and its leader's
};

/// Calls request(tag), which starts to wait for a client. Arms the tag of the call's end too, which
/// follows: when a client comes and goes at once, the queue delivers both on two threads. If
/// request throws, neither tag is armed any more.
template <typename Call, typename Request>
void ArmForClient(CallTag<Call>& on_done, CallTag<Call>& on_request, Request request) {
  on_done.Follow(on_request);
  on_done.ArmFor([&](void*) { on_request.ArmFor(request); });
}

/// Calls post(), which waits for the next client of a method, and repeats it until there is memory
/// for it: otherwise no client could call the method again. Gives up after 10 s.
template <typename Post>
void PostWithRetries(Post post) noexcept {
  constexpr int kMaxTries = 1000;
  for (int i = 0; i < kMaxTries; ++i) {
    if (RunLogged("waiting for the next call", post)) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// A completion queue, and the threads that deliver its events.
class CompletionThreads {
 public:
  explicit CompletionThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  /// Shuts the queue down and waits for the threads. REQUIRES: no operation is started any more.
  ~CompletionThreads();

  /// Starts threads. REQUIRES: the server has started.
  void Start(int num_threads);
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

 private:
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace attention
