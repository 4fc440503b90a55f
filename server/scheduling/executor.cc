#include "server/scheduling/executor.h"

#include <chrono>

namespace attention {

Executor::Executor(const ExecutorOptions& options)
    : queue_(options.queue),
      batcher_(queue_, options.max_batch_tokens, std::chrono::steady_clock::now),
      pool_(options.num_threads),
      runner_(pool_, std::chrono::steady_clock::now),
      dispatcher_([this] { Dispatch(); }) {}

Executor::~Executor() { Stop(); }

void Executor::Stop() {
  queue_.Close();
  runner_.Abort();
  if (dispatcher_.joinable()) {
    dispatcher_.join();
  }
}

void Executor::Dispatch() {
  for (Batch batch = batcher_.Next(); !batch.jobs.empty(); batch = batcher_.Next()) {
    runner_.Run(batch);
    batch = Batch();  // the jobs must not live until the next request comes
  }
}

}  // namespace attention
