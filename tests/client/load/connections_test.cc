// Which connections of a load its requests take.
#include <atomic>
#include <memory>
#include <utility>

#include "client/load/load_channels.h"
#include "client/load/load_generator.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/client/lib/scripted_server.h"
#include "tests/support/matchers.h"
#include "tests/support/silent_listener.h"

namespace attention {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(ConnectionsTest, RequestsTakeThemInTurnHoweverFewAreInFlight) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 2, 8});
  Workload workload;
  workload.request.input = HiddenStatesInput{&rows, {}, nullptr, {}};
  const RequestMix mix(std::move(workload));
  const NativeProtocol protocol(/*is_streaming=*/true);
  const auto load = EncodeLoad(mix, protocol, {});
  ASSERT_THAT(load, IsOk());
  for (const bool is_open : {false, true}) {
    const ScriptedServer server;
    LoadOptions options{.connection = {.server = server.address()},
                        .concurrency = 1,
                        .connections = 4,
                        .duration = absl::InfiniteDuration(),
                        .requests = 40,
                        .timeout = absl::Minutes(1)};
    if (is_open) {
      options.open_loop = OpenLoopOptions{.arrivals = {.rate_per_s = 200.0}};
    }
    const auto result = RunLoad(*load, options, {});
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->latency_ns.count(), 40) << is_open;
    const std::map<std::string, int> peers = server.peers();
    EXPECT_THAT(peers, SizeIs(4)) << is_open;
    EXPECT_THAT(peers, Each(Pair(::testing::_, 10))) << is_open;
    EXPECT_THAT(result->servers, ElementsAre(Pair("ipv4:" + server.address(), 40)));
  }
}

TEST(ConnectionsTest, AreThereBeforeTheLoadBegins) {
  const ScriptedServer server;
  const auto channels = ConnectChannels(
      {.connection = {.server = server.address()}, .connections = 3, .timeout = absl::Minutes(1)});
  ASSERT_THAT(channels, IsOk());
  ASSERT_THAT(*channels, SizeIs(3));
  for (const auto& channel : *channels) {
    EXPECT_EQ(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
  }
}

TEST(ConnectionsTest, OfAServerThatIsNotThereAreLeftToTheCalls) {
  const auto channels = ConnectChannels(
      {.connection = {.server = "127.0.0.1:1"}, .connections = 2, .timeout = absl::Minutes(1)});
  ASSERT_THAT(channels, IsOk());
  EXPECT_THAT(*channels, SizeIs(2));
}

// The deadline of the first connection is 15 s: a load that is stopped does not wait for it.
TEST(ConnectionsTest, AreNotWaitedForOnceTheLoadIsStopped) {
  const SilentListener nobody;
  const std::atomic<bool> stop = true;
  const LoadControl control{.stop = &stop};
  const auto channels = ConnectChannels(
      {.connection = {.server = nobody.address()}, .connections = 1, .timeout = absl::Minutes(1)},
      control);
  ASSERT_THAT(channels, IsOk());
  EXPECT_EQ(channels->front()->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_CONNECTING);
}

}  // namespace
}  // namespace attention
