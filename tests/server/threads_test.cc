// The server's threads are a budget, not a function of its load.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

// gRPC's threads for timers, name resolution and the like come and go; none serves a call.
int64_t NumServingThreads() {
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

void Load(InProcessServer& server, int num_callers) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < num_callers; ++caller) {
    callers.emplace_back([&] {
      AttendClient client(server.NewChannel());
      for (int i = 0; i < 20; ++i) {
        v1::AttendResponse response;
        EXPECT_TRUE(
            client.Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {32, 512})), &response).ok());
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST(ThreadsTest, LoadStartsNoThreads) {
  InProcessServer server({.threads = 2});
  Load(server, 4);
  const int64_t before = NumServingThreads();
  Load(server, 32);
  EXPECT_TRUE(Eventually([&] { return NumServingThreads() <= before; })) << before;
}

}  // namespace
}  // namespace attention
