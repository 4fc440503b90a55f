// attend-observer-bench: what it costs a request to be observed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/counted.h"
#include "server/observability/requests.h"

namespace attention {
namespace {

constexpr int kModels = 8;
constexpr int kRepetitions = 7;
constexpr int64_t kRequests = 200'000;  // of each thread

RequestRecord RecordOf(int64_t i) {
  return {.rpc = "Attend",
          .model = absl::StrCat("model-", i % kModels),
          .model_version = 1,
          .request_id = "0123456789abcdef",
          .arrival = std::chrono::steady_clock::now(),
          .receive_ns = 20'000 + i,
          .queue_ns = 30'000,
          .compute_ns = 400'000 + 100 * (i % 1000),
          .send_ns = 15'000,
          .tokens = 128,
          .batch_id = 1 + i,
          .batch_requests = 4,
          .request_bytes = 262'144};
}

// Nanoseconds of the wall clock for each request, of the quickest repetition.
double Measure(int num_threads, bool observes) {
  double best = 1e9;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    RequestObserver observer(LoggedRequests::kFailed);
    std::vector<std::thread> threads;
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<int64_t> sum = 0;
    for (int t = 0; t < num_threads; ++t) {
      threads.emplace_back([&] {
        for (int64_t i = 0; i < kRequests; ++i) {
          RequestRecord record = RecordOf(i);
          if (observes) {
            observer.OnEnd(std::move(record));
          } else {
            sum.fetch_add(record.tokens, std::memory_order_relaxed);
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / static_cast<double>(kRequests * num_threads));
  }
  return best;
}

}  // namespace
}  // namespace attention

int main() {
  for (const int threads : {1, 2, 4}) {
    const double without = attention::Measure(threads, false);
    const double with = attention::Measure(threads, true);
    std::printf("%s: %.0f ns a request to be observed (%.0f with the making of its record)\n",
                attention::Counted(threads, "thread").c_str(), with - without, with);
  }
  return 0;
}
