// A completion queue for a thread that also has other work from time to time.
#pragma once

#include <grpcpp/completion_queue.h>

#include <chrono>

namespace attention {

/// A completion queue.
class EventQueue {
 public:
  grpc::CompletionQueue& queue() { return queue_; }

  /// Calls `take(tag, ok)` for the next event, if one comes within 100 ms. Returns false if the
  /// queue was shut down and is empty.
  template <typename Take>
  bool Next(Take take) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(100);
    switch (queue_.AsyncNext(&tag, &ok, deadline)) {
      case grpc::CompletionQueue::SHUTDOWN:
        return false;
      case grpc::CompletionQueue::GOT_EVENT:
        take(tag, ok);
        return true;
      case grpc::CompletionQueue::TIMEOUT:
        return true;
    }
    return true;
  }

  /// REQUIRES: no call is under way.
  void ShutDown() {
    queue_.Shutdown();
    while (Next([](void*, bool) {})) {
    }
  }

 private:
  grpc::CompletionQueue queue_;
};

}  // namespace attention
