// Waiting for what another thread, or another program, is about to do.
#pragma once

#include <chrono>
#include <thread>

namespace attention {

/// Waits until `condition()` holds. Returns false after minutes, which are no requirement of speed.
/// What a server counts, logs and frees of a call follows its answer, which the client may have by
/// then.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace attention
