#include "client/lib/channel_target.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/localhost.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(ChannelTargetTest, OneServerIsLeftToGrpc) {
  for (const char* server :
       {"127.0.0.1:8001", "[::1]:65535", "attend.test:1", "dns:///attend.test:8001",
        "ipv4:127.0.0.1:8001", "unix:/tmp/attend.sock", "unix-abstract:attend"}) {
    const auto target = TargetOf(server);
    ASSERT_THAT(target, IsOk());
    EXPECT_EQ(target->uri, server);
    EXPECT_FALSE(target->is_list);
    EXPECT_EQ(target->is_group, absl::StartsWith(server, "dns:"));
    EXPECT_EQ(TargetOf(absl::StrCat(" ", server, "\n"))->uri, server);
  }
}

TEST(ChannelTargetTest, AListHasOneScheme) {
  const std::pair<const char*, const char*> lists[] = {
      {"127.0.0.1:1,127.0.0.2:2", "ipv4:127.0.0.1:1,127.0.0.2:2"},
      {"ipv4:127.0.0.1:1,127.0.0.2:2", "ipv4:127.0.0.1:1,127.0.0.2:2"},
      {"[::1]:1,[2001:db8::1]:2", "ipv6:[::1]:1,[2001:db8::1]:2"},
      {"127.0.0.1:1,[::1]:2", "ipv6:[::ffff:127.0.0.1]:1,[::1]:2"},
      {" 127.0.0.1:1, [::1]:2\n", "ipv6:[::ffff:127.0.0.1]:1,[::1]:2"},
      {"unix:/a,unix:/b", "unix:/a,/b"},
      {"unix:/a, unix:/b", "unix:/a,/b"}};
  for (const auto& [server, uri] : lists) {
    const auto target = TargetOf(server);
    ASSERT_THAT(target, IsOk()) << server;
    EXPECT_EQ(target->uri, uri);
    EXPECT_TRUE(target->is_list && target->is_group);
  }
}

TEST(ChannelTargetTest, HostsOfAListAreLookedUp) {
  if (!KnowsLocalhost()) {
    GTEST_SKIP() << kNoLocalhost;
  }
  const auto target = TargetOf("localhost:1,localhost:2");
  ASSERT_THAT(target, IsOk());
  EXPECT_EQ(target->common_host, "localhost");
  EXPECT_THAT(target->uri, AnyOf(HasSubstr("127.0.0.1:1"), HasSubstr("[::1]:1"),
                                 HasSubstr("[::ffff:127.0.0.1]:1")));
  const auto different = TargetOf("localhost:1,127.0.0.1:2");
  ASSERT_THAT(different, IsOk());
  EXPECT_EQ(different->common_host, "");
}

TEST(ChannelTargetTest, AHostThatIsNotKnownIsLeftOutUnlessAllAre) {
  const auto target = TargetOf("127.0.0.1:1,absent.invalid:2");
  ASSERT_THAT(target, IsOk());
  EXPECT_EQ(target->uri, "ipv4:127.0.0.1:1");
  EXPECT_THAT(TargetOf("absent.invalid:1,absent.invalid:2"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("absent.invalid:1")));
}

TEST(ChannelTargetTest, WhatIsNoListIsRefused) {
  for (const char* server : {"127.0.0.1:1,", ",", "127.0.0.1:1,127.0.0.1", "127.0.0.1:1,a:0",
                             "127.0.0.1:1,:2", "127.0.0.1:1,a:70000"}) {
    EXPECT_THAT(TargetOf(server),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a list of")))
        << server;
  }
  EXPECT_THAT(TargetOf("unix:/a,127.0.0.1:1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found both")));
  for (const char* server :
       {"", "attend.test", "127.0.0.1", "a:0", "a:65536", "a:73537", "a:", ":1", "a:b", "a:1x",
        "::1:8001", "[a]:1", "http://127.0.0.1:8001", "/tmp/a"}) {
    EXPECT_THAT(TargetOf(server),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("expected host:port with a port of 1 to 65535"),
                               HasSubstr(absl::StrCat("found \"", server, "\"")))))
        << server;
  }
}

}  // namespace
}  // namespace attention
