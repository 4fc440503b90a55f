// Completion queues of our own, with their threads. (The callback API's threads sleep when idle and
// make the next call wait for it.)
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace attention {

/// What a completion queue's tag points to.
class CompletionTag {
 public:
  /// `ok` as grpc::CompletionQueue::Next gives it. Called by a completion thread.
  void Deliver(bool ok) {
    is_armed_.load(std::memory_order_acquire);
    OnEvent(ok);
  }

 protected:
  ~CompletionTag() = default;

  /// Does not block.
  virtual void OnEvent(bool ok) = 0;
  void SetArmed() { is_armed_.store(true, std::memory_order_release); }

 private:
  /// The queue orders what comes before SetArmed before Deliver already, in a library that
  /// ThreadSanitizer does not see into.
  std::atomic<bool> is_armed_ = false;
};

/// A tag that calls a member function of a call, and keeps the call alive while the operation is
/// under way. Call derives from std::enable_shared_from_this.
template <typename Call>
class CallTag final : public CompletionTag {
 public:
  CallTag(Call* call, void (Call::*handler)(bool ok)) : call_(call), handler_(handler) {}

  /// The tag to start one operation with.
  void* Arm() {
    keep_alive_ = call_->shared_from_this();
    SetArmed();
    return static_cast<CompletionTag*>(this);
  }
  /// The operation will never complete.
  void Disarm() { keep_alive_.reset(); }

 private:
  void OnEvent(bool ok) override {
    const std::shared_ptr<void> keep_alive = std::move(keep_alive_);
    (call_->*handler_)(ok);
  }

  Call* const call_;
  void (Call::* const handler_)(bool ok);
  std::shared_ptr<void> keep_alive_;
};

class CompletionThreads {
 public:
  explicit CompletionThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  /// Shuts the queue down and waits for the threads. REQUIRES: no operation is started any more.
  ~CompletionThreads();

  /// REQUIRES: the server has started.
  void Start(int num_threads);
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

 private:
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace attention
