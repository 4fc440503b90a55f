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

// Of a call that such a sleep delays at each of these gaps, more than half of the least delay.
constexpr double kLimitMs = 30;

// Of calls that each come after an idle second and a bit: other work on the machine delays some of
// them, a sleep of the server's all.
Milliseconds BestAfterIdling(const std::function<void()>& call) {
  call();
  Milliseconds best = Milliseconds::max();
  for (int round = 0; round < 2; ++round) {
    for (const int gap_ms : {1010, 1020, 1030, 1040}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(gap_ms));
      const auto begin = std::chrono::steady_clock::now();
      call();
      best = std::min<Milliseconds>(best, std::chrono::steady_clock::now() - begin);
    }
  }
  return best;
}

TEST(IdleTest, AttendIsNotSlowAfterAnIdleSecond) {
  if (kSlowdown > 1) {
    GTEST_SKIP() << "a sanitizer's own delays are as long";
  }
  InProcessServer server;
  AttendClient client(server.NewChannel());
  const v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {4, 512}));
  const Milliseconds best = BestAfterIdling([&] {
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(request, &response).ok());
  });
  EXPECT_LT(best.count(), kLimitMs);
}

TEST(IdleTest, HealthIsNotSlowAfterAnIdleSecond) {
  if (kSlowdown > 1) {
    GTEST_SKIP() << "a sanitizer's own delays are as long";
  }
  InProcessServer server;
  const auto stub = grpc::health::v1::Health::NewStub(server.NewChannel());
  const Milliseconds best = BestAfterIdling([&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, grpc::health::v1::HealthCheckRequest(), &response).ok());
  });
  EXPECT_LT(best.count(), kLimitMs);
}

}  // namespace
}  // namespace attention
