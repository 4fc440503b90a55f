// SIGTERM, SIGINT and SIGHUP: what is under way is answered, what comes later is refused, and the
// server exits with 0.
#include <signal.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/lib/attention_client.h"
#include "core/tensor/seeded.h"
#include "tests/e2e/programs.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

std::unique_ptr<AttentionClient> ClientOf(const ServerProcess& server) {
  return *AttentionClient::Connect(
      {.connection = {.server = server.address(), .retries = false}, .timeout = absl::Minutes(2)});
}

TEST(ShutdownTest, AnIdleServerExitsWithZero) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    ServerProcess server;
    server.process().Signal(signal);
    EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
  }
}

// As a service manager sends them (SendSIGHUP), and a terminal that closes after Ctrl-C.
TEST(ShutdownTest, AHangUpBesideAnotherSignalIsNoSecondOne) {
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGHUP), std::pair(SIGHUP, SIGTERM),
                                      std::pair(SIGINT, SIGHUP), std::pair(SIGHUP, SIGHUP)}) {
    ServerProcess server({"--drain-delay=1s"});
    server.process().Signal(first);
    server.process().Signal(second);
    EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
  }
}

TEST(ShutdownTest, TheReaderOfTheLogMayLeave) {
  ServerProcess server;
  server.process().Signal(SIGPIPE);
  EXPECT_THAT(ClientOf(server)->ListModels(), IsOk());
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
}

TEST(ShutdownTest, EveryCallUnderLoadIsAnsweredOrRefused) {
  ServerProcess server;
  const auto client = ClientOf(server);
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 64, 512});
  AttendRequest request;
  request.model = "demo";
  request.input = HiddenStatesInput{&rows, {}, nullptr, {}};

  std::atomic<int> answered = 0;
  std::vector<absl::Status> ends(4);
  std::vector<std::thread> callers;
  for (size_t c = 0; c < ends.size(); ++c) {
    callers.emplace_back([&, c] {
      // Each caller ends with its first failure, which must be the refusal; the deadline bounds the
      // loop.
      while (ends[c].ok()) {
        const auto result = c % 2 == 0
                                ? client->Attend(request)
                                : client->AttendStream(request, {.on_rows = {}, .assemble = true});
        ends[c] = result.status();
        if (ends[c].ok() && ++answered == 40) {
          server.process().Signal(SIGTERM);
        }
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  for (const absl::Status& end : ends) {
    EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
  }
  EXPECT_GE(answered, 40);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
}

TEST(ShutdownTest, BenchReportsNothingButUnavailable) {
  ServerProcess server;
  Process bench({ATTEND_BINARY, "bench", "--server", server.address(), "--shape=1x32x512", "-c",
                 "4", "-z", "1h", "--warmup=0", "--json=-", "--timeout=2m"});
  const auto client = ClientOf(server);
  AttendRequest request;
  request.model = "demo";
  request.input = TokenIdsInput{{1}, {}};
  // Batches are numbered: the load is under way when many have gone by.
  uint64_t batch_id = 0;
  for (int i = 0; i < 100000 && batch_id < 1000; ++i) {
    const auto result = client->Attend(request);
    ASSERT_THAT(result, IsOk());
    batch_id = result->summary.batch_id();
  }
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
  EXPECT_EQ(bench.WaitForExit(kPatience), 1) << bench.err();
  const nlohmann::json json = nlohmann::json::parse(bench.out());
  EXPECT_EQ(json["gave_up"], true);
  EXPECT_GT(json["answers"], 0);
  ASSERT_EQ(json["errors"].size(), 1u) << json["errors"];
  EXPECT_GT(json["errors"]["UNAVAILABLE"], 0);
}

}  // namespace
}  // namespace attention
