#include "server/sockets/connection_pace.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/sockets/connection_acceptor.h"
#include "server/sockets/peer_host.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using TimePoint = ConnectionPace::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kCalls = 100;

class ConnectionPaceTest : public ::testing::Test {
 protected:
  // Counts calls of one connection of the host, besides those that are free.
  void Count(const std::string& host, int64_t calls) {
    const std::string peer = absl::StrCat("ipv4:", host, ":", ++last_port_);
    for (int64_t i = 0; i < ConnectionPace::kFreeCalls + calls; ++i) {
      pace_.CountCall(peer);
    }
  }
  void Pass(TimePoint::duration time) { now_ = now_.load() + time; }
  // The connections that the host gets of so many. Each makes a call at once.
  int CountTaken(const std::string& host, int tries) {
    int taken = 0;
    for (int i = 0; i < tries; ++i) {
      const int port = ++last_port_;
      if (pace_.Take(host, port)) {
        ++taken;
        pace_.CountCall(absl::StrCat("ipv4:", host, ":", port));
      }
    }
    return taken;
  }

  int last_port_ = 0;
  std::atomic<TimePoint> now_ = TimePoint() + std::chrono::hours(1);
  ConnectionPace pace_{kCalls, [this] { return now_.load(); }};
};

TEST_F(ConnectionPaceTest, FewCallsDelayNothing) {
  EXPECT_EQ(CountTaken("a", 1000), 1000);
  Count("a", kCalls);
  EXPECT_EQ(CountTaken("a", 1000), 1000);
}

TEST_F(ConnectionPaceTest, AConnectionThatIgnoresTheLimitOfStreamsIsEnded) {
  std::vector<std::string> ended;
  pace_.set_end_connection([&](const std::string& peer) { ended.push_back(peer); });
  constexpr int64_t kMost = ConnectionPace::kFloodSeconds * ConnectionPace::kFloodTimes * kCalls;
  const auto call = [&](const std::string& peer, int64_t calls) {
    for (int64_t i = 0; i < calls; ++i) {
      pace_.CountCall(peer);
    }
  };
  call("ipv4:a:1", kMost);
  call("ipv4:a:2", kMost);
  EXPECT_THAT(ended, IsEmpty());
  Pass(seconds(1));
  call("ipv4:a:1", kMost / 2);
  EXPECT_THAT(ended, IsEmpty()) << "another second";
  call("ipv4:a:1", 1);
  EXPECT_THAT(ended, ElementsAre("ipv4:a:1"));
  call("ipv4:a:1", 10);
  EXPECT_THAT(ended, ElementsAre("ipv4:a:1")) << "once";
  for (int64_t i = 0; i < 3 * kMost; ++i) {
    pace_.CountCall("ipv4:b:1");
    pace_.CountRequest("ipv4:b:1");
  }
  EXPECT_THAT(ended, SizeIs(1)) << "calls that bring work";
  for (int64_t i = 0; i < kMost + 1; ++i) {
    pace_.CountWrong("ipv4:b:1");
  }
  EXPECT_THAT(ended, ElementsAre("ipv4:a:1", "ipv4:b:1")) << "wrong requests";
  call("unix:", 3 * kMost);
  EXPECT_THAT(ended, SizeIs(2));
}

TEST_F(ConnectionPaceTest, RequestsOfTheLastSecondAllowNoFurtherCalls) {
  constexpr int64_t kBefore = 50;
  const std::string peer = "ipv4:a:1";
  for (int64_t i = 0; i < kBefore; ++i) {
    pace_.CountCall(peer);
  }
  Pass(seconds(1));
  pace_.CountCall(peer);  // a new second, which forgets the calls before
  for (int64_t i = 0; i < kBefore; ++i) {
    pace_.CountRequest(peer);
  }
  for (int64_t i = 0; i < ConnectionPace::kFreeCalls + kCalls + kBefore / 2; ++i) {
    pace_.CountCall(peer);
  }
  EXPECT_EQ(CountTaken("a", 10), 1) << "a host that makes many calls";
}

TEST_F(ConnectionPaceTest, AHostWithManyCallsGetsOneConnectionForEachPause) {
  Count("a", kCalls + 1);
  EXPECT_EQ(CountTaken("a", 10), 1);
  EXPECT_EQ(CountTaken("b", 10), 10) << "another host";
  for (int pause = 1; pause <= 50; ++pause) {
    Count("a", 2 * kCalls);
    Pass(ConnectionPace::kPause);
    EXPECT_EQ(CountTaken("a", 10), 1) << "after pause " << pause;
  }
}

TEST_F(ConnectionPaceTest, AHostWhoseCallsKeepComingWaitsLonger) {
  Count("a", 2 * kCalls);
  EXPECT_EQ(CountTaken("a", 10), 1);
  const auto still_comes = [&](milliseconds waited) {
    for (milliseconds time(0); time < waited; time += ConnectionPace::kQuiet / 2) {
      EXPECT_EQ(CountTaken("a", 10), 0) << "after " << time.count() << " ms";
      Pass(ConnectionPace::kQuiet / 2);
      Count("a", 2 * kCalls);
    }
  };
  still_comes(2 * ConnectionPace::kPause);
  Pass(ConnectionPace::kQuiet - milliseconds(1));
  EXPECT_EQ(CountTaken("a", 10), 0);
  Pass(milliseconds(1));
  EXPECT_EQ(CountTaken("a", 10), 1) << "it was quiet";
  still_comes(ConnectionPace::kMaxPause);
  EXPECT_EQ(CountTaken("a", 10), 1) << "it does not wait for ever";
}

TEST_F(ConnectionPaceTest, AHostThatStopsIsFreeAfterASecond) {
  Count("a", 1000 * kCalls);
  Pass(milliseconds(990));
  EXPECT_EQ(CountTaken("a", 10), 1);
  Pass(milliseconds(20));
  EXPECT_EQ(CountTaken("a", 10), 10);
}

TEST_F(ConnectionPaceTest, AHostMayMakeItsCallsInEverySecond) {
  Count("a", kCalls);
  for (int i = 0; i < 10; ++i) {
    Pass(seconds(1));
    Count("a", kCalls);
    EXPECT_EQ(CountTaken("a", 10), 10);
  }
}

TEST_F(ConnectionPaceTest, CallsThatBringWorkDoNotCount) {
  for (int64_t i = 0; i < 10 * kCalls; ++i) {
    pace_.CountCall("ipv4:a:1");
    pace_.CountRequest("ipv4:a:1");
  }
  EXPECT_EQ(CountTaken("a", 10), 10);
  Count("b", kCalls + 1);
  const std::string peer = absl::StrCat("ipv4:b:", last_port_);
  EXPECT_EQ(CountTaken("b", 10), 1);
  pace_.CountRequest(peer);
  EXPECT_EQ(CountTaken("b", 10), 10);
}

TEST_F(ConnectionPaceTest, AProxyWithFewCallsOnEachConnectionIsNotDelayed) {
  for (int i = 0; i < 10 * kCalls; ++i) {
    Count("a", 0);
  }
  EXPECT_EQ(CountTaken("a", 10), 10);
}

TEST_F(ConnectionPaceTest, ManyConnectionsOfOneHostCountTogether) {
  for (int i = 0; i <= kCalls; ++i) {
    Count("a", 1);
  }
  EXPECT_EQ(CountTaken("a", 10), 1);
}

TEST_F(ConnectionPaceTest, AHostGetsFewConnectionsUntilItIsHeardOf) {
  const auto take = [&](const std::string& host, int first, int tries) {
    int64_t taken = 0;
    for (int port = first; port < first + tries; ++port) {
      taken += pace_.Take(host, port) ? 1 : 0;
    }
    return taken;
  };
  EXPECT_EQ(take("a", 1, 100), ConnectionPace::kMaxSilent);
  EXPECT_EQ(take("b", 1, 100), ConnectionPace::kMaxSilent) << "another host";
  pace_.CountCall("ipv4:a:2");
  pace_.CountCall("ipv4:a:2");
  pace_.CountCall("ipv4:a:999");  // one that was never silent
  EXPECT_EQ(take("a", 101, 100), 1) << "one was heard of";
  Pass(ConnectionPace::kMaxSilence - milliseconds(1));
  EXPECT_EQ(take("a", 201, 100), 0);
  Pass(milliseconds(1));
  EXPECT_EQ(take("a", 301, 100), ConnectionPace::kMaxSilent) << "silence does not last";
}

TEST_F(ConnectionPaceTest, ADoubtedHostGetsOneConnectionUntilItIsHeardOf) {
  Count("a", kCalls / 2);
  EXPECT_TRUE(pace_.Take("a", 101));
  Pass(ConnectionPace::kMaxSilence);
  EXPECT_FALSE(pace_.Take("a", 102));
  pace_.CountCall("ipv4:a:101");
  EXPECT_TRUE(pace_.Take("a", 102));
  Count("a", kCalls / 2);
  Pass(ConnectionPace::kPause);
  EXPECT_TRUE(pace_.Take("a", 103)) << "silence does not last";
}

TEST_F(ConnectionPaceTest, SilentConnectionsOfUnixSocketsAreNotDelayed) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(pace_.Take(std::string(kUnixHost), 0));
  }
}

TEST_F(ConnectionPaceTest, UnixSocketsAreNotDelayed) {
  for (int64_t i = 0; i < 10 * (ConnectionPace::kFreeCalls + kCalls); ++i) {
    pace_.CountCall("unix:");
  }
  EXPECT_EQ(CountTaken("unix", 10), 10);
}

TEST_F(ConnectionPaceTest, SoManyHostsAreCounted) {
  for (size_t i = 0; i < ConnectionPace::kMaxHosts; ++i) {
    Count(absl::StrCat("host ", i), 1);
  }
  Count("one more", kCalls + 1);
  EXPECT_EQ(CountTaken("one more", 10), 10);
  Pass(seconds(2));
  Count("one more", kCalls + 1);
  EXPECT_EQ(CountTaken("one more", 10), 1) << "the others are forgotten";
}

TEST_F(ConnectionPaceTest, SoManyConnectionsAreCounted) {
  for (size_t i = 0; i < ConnectionPace::kMaxConnections; ++i) {
    pace_.CountCall(absl::StrCat("ipv4:a:", i));
  }
  Count("b", kCalls + 1);
  EXPECT_EQ(CountTaken("b", 10), 10);
  Pass(seconds(1));
  Count("b", kCalls + 1);
  EXPECT_EQ(CountTaken("b", 10), 1) << "the others are forgotten";
}

// A client's end of a connection on loopback.
FileDescriptor ConnectTo(const std::string& address) {
  FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)), 0);
  return client;
}

TEST_F(ConnectionPaceTest, ConnectionsWaitAndThoseThatAreLeftGoNowhere) {
  absl::StatusOr<ListeningSockets> listening = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  std::atomic<int> passed = 0;
  ConnectionAcceptor acceptor(std::move(listening->sockets), 100, pace_,
                              [&](int /*listener*/, const FileDescriptor& connection) {
                                EXPECT_EQ(PeerOfConnection(connection.get()).host, "127.0.0.1");
                                ++passed;
                              });
  Count("127.0.0.1", kCalls + 1);
  const FileDescriptor first = ConnectTo(listening->address);
  auto left = std::make_unique<FileDescriptor>(ConnectTo(listening->address));
  const FileDescriptor last = ConnectTo(listening->address);
  auto left_behind = std::make_unique<FileDescriptor>(ConnectTo(listening->address));
  ASSERT_TRUE(Eventually([&] { return acceptor.delayed() == 3; }));
  EXPECT_EQ(passed, 1);
  EXPECT_EQ(acceptor.CountOpen(), 3) << "those that wait";
  left_behind.reset();
  ASSERT_TRUE(Eventually([&] { return acceptor.CountOpen() == 2; }));
  left.reset();
  ASSERT_TRUE(Eventually([&] { return acceptor.CountOpen() == 1; }));
  EXPECT_EQ(passed, 1);
  Pass(ConnectionPace::kPause);
  ASSERT_TRUE(Eventually([&] { return passed == 2; }));
  EXPECT_EQ(acceptor.refused(), 0);
}

TEST_F(ConnectionPaceTest, TheConnectionOfAFloodIsEndedAndNoOther) {
  absl::StatusOr<ListeningSockets> listening = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  Mutex mutex;
  std::vector<FileDescriptor> taken;
  ConnectionAcceptor acceptor(std::move(listening->sockets), 100, pace_,
                              [&](int /*listener*/, FileDescriptor connection) {
                                MutexLock lock(mutex);
                                taken.push_back(std::move(connection));
                              });
  const FileDescriptor good = ConnectTo(listening->address);
  const FileDescriptor bad = ConnectTo(listening->address);
  ASSERT_TRUE(Eventually([&] {
    MutexLock lock(mutex);
    return taken.size() == 2;
  }));
  sockaddr_in own = {};
  socklen_t size = sizeof(own);
  ASSERT_EQ(getsockname(bad.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  const int64_t before = ConnectionAcceptor::ended();
  const std::string peer = absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
  for (int64_t i = 0; i <= ConnectionPace::kFloodSeconds * ConnectionPace::kFloodTimes * kCalls;
       ++i) {
    pace_.CountCall(peer);
  }
  EXPECT_EQ(ConnectionAcceptor::ended(), before + 1);
  char byte = 0;
  EXPECT_EQ(recv(bad.get(), &byte, 1, 0), 0) << "the end of the connection";
  EXPECT_EQ(recv(good.get(), &byte, 1, MSG_DONTWAIT), -1) << "still open";
}

TEST(PeerHostTest, AConnectionOnThisMachineHasNoAddress) {
  int ends[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  EXPECT_EQ(PeerOfConnection(one.get()).host, kUnixHost);
  EXPECT_EQ(PeerOfConnection(-1).host, "?");
}

}  // namespace
}  // namespace attention
