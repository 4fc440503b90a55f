#include "server/services/calls/completion_threads.h"

namespace attention {

void CompletionThreads::Start(int num_threads) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) {
        RunLogged("a completion thread", [&] { static_cast<CompletionTag*>(tag)->Deliver(ok); });
      }
    });
  }
}

CompletionThreads::~CompletionThreads() {
  queue_->Shutdown();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  // A queue must be empty before it is destroyed, even if no thread ever ran.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

}  // namespace attention
