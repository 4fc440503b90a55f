// How many threads of this process may serve calls.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"

namespace attention {

/// gRPC's threads for timers, name resolution and the like come and go; none serves a call.
inline int64_t NumServingThreads() {
  int64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    const bool is_auxiliary = absl::EndsWith(name, "-execut") || absl::EndsWith(name, "-executo") ||
                              absl::StartsWith(name, "grpc_global") ||
                              absl::StartsWith(name, "event_engine") ||
                              absl::StartsWith(name, "timer_manager");
    count += is_auxiliary ? 0 : 1;
  }
  return count;
}

}  // namespace attention
