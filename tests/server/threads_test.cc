// The server's threads are a budget, not a function of its load.
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/serving_threads.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

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
