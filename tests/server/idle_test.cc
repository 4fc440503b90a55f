// No call is slow because the server had nothing to do before it. A library thread that sleeps 100
// ms after a second of idleness would show as a delay of tens of milliseconds at exactly these
// gaps, and at no rounder ones.
#include <algorithm>
#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"
#include "tests/support/slowdown.h"

namespace attention {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// More than half of the least delay by such a sleep at these gaps.
constexpr double kLimitMs = 30;

// Returns how much longer a call after an idle second takes than the slowest after a shorter pause.
// Other work on the machine, and memory that it takes from idle programs, delay both kinds; a sleep
// of the server delays the first kind only, at each gap.
Milliseconds DelayAfterIdling(const std::function<void()>& call) {
  const auto time = [&] {
    const auto begin = std::chrono::steady_clock::now();
    call();
    return Milliseconds(std::chrono::steady_clock::now() - begin);
  };
  call();
  Milliseconds best_after_idling = Milliseconds::max();
  Milliseconds worst_otherwise = Milliseconds::zero();
  for (int round = 0; round < 2; ++round) {
    for (const int gap_ms : {1010, 1020, 1030, 1040}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(gap_ms));
      best_after_idling = std::min(best_after_idling, time());
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      worst_otherwise = std::max(worst_otherwise, time());
    }
  }
  return best_after_idling - worst_otherwise;
}

TEST(IdleTest, AttendIsNotSlowAfterAnIdleSecond) {
  if (kSlowdown > 1) {
    GTEST_SKIP() << "a sanitizer's own delays are as long";
  }
  InProcessServer server;
  AttendClient client(server.NewChannel());
  const v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {4, 512}));
  const Milliseconds delay = DelayAfterIdling([&] {
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(request, &response).ok());
  });
  EXPECT_LT(delay.count(), kLimitMs);
}

TEST(IdleTest, HealthIsNotSlowAfterAnIdleSecond) {
  if (kSlowdown > 1) {
    GTEST_SKIP() << "a sanitizer's own delays are as long";
  }
  InProcessServer server;
  const auto stub = grpc::health::v1::Health::NewStub(server.NewChannel());
  const Milliseconds delay = DelayAfterIdling([&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, grpc::health::v1::HealthCheckRequest(), &response).ok());
  });
  EXPECT_LT(delay.count(), kLimitMs);
}

}  // namespace
}  // namespace attention
