#include "server/security/exposure.h"

#include "gmock/gmock.h"
#include "server/sockets/listen_address.h"
#include "server/sockets/peer_host.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

auto IsRefused(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST(ListenAddressTest, KnowsWhatOnlyThisMachineReaches) {
  for (const char* address : {"127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1", "unix:/a"}) {
    EXPECT_TRUE(IsLocal(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.0.0.1.example.org:1", "localhost.example.org:1",
        "ipv4:127.0.0.1:1", "*:1", "127.1:1", "[::ffff:10.0.0.1]:1", "example.org:1"}) {
    EXPECT_FALSE(IsLocal(address)) << address;
  }
}

TEST(PeerHostTest, IsTheMachineAndNotThePort) {
  EXPECT_EQ(HostOf("ipv4:127.0.0.1:53124"), "127.0.0.1");
  EXPECT_EQ(HostOf("ipv6:[::1]:53124"), "::/64");
  EXPECT_EQ(HostOf("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:443"), "2001:db8:1:2::/64");
  EXPECT_EQ(HostOf("ipv6:%5Bfe80::1%25eth0%5D:443"), "fe80::/64");
  EXPECT_EQ(HostOf("unix:/run/attend.sock"), "unix");
  EXPECT_EQ(HostOf("unix:"), "unix");
  EXPECT_EQ(HostOf("?"), "?");
}

TEST(ExposureTest, PlaintextForOtherMachinesHasToBeMeant) {
  EXPECT_THAT(CheckExposure({.listen = {"127.0.0.1:1", "unix:/a"}}), IsOk());
  const absl::Status refused = CheckExposure({.listen = {"127.0.0.1:1", "0.0.0.0:2"}});
  EXPECT_THAT(refused, IsRefused("--listen: other machines would reach 0.0.0.0:2 in plaintext"));
  for (const char* way_out : {"--tls-certificate", "unix:/PATH", "--insecure"}) {
    EXPECT_THAT(refused, IsRefused(way_out));
  }
  EXPECT_THAT(CheckExposure({.listen = {"0.0.0.0:2"}, .insecure = true}), IsOk());
  EXPECT_THAT(CheckExposure({.listen = {"0.0.0.0:2"}, .tls_certificate = "c", .tls_key = "k"}),
              IsOk());
  EXPECT_THAT(CheckExposure({.admin_listen = "0.0.0.0:3"}),
              IsRefused("--admin-listen: other machines would reach 0.0.0.0:3 in plaintext"));
}

TEST(ExposureTest, PlaintextThatIsMeantIsWarnedOf) {
  EXPECT_THAT(PlaintextWarning({.listen = {"127.0.0.1:1", "0.0.0.0:2"}, .insecure = true}),
              AllOf(HasSubstr("plaintext on 0.0.0.0:2"), HasSubstr("--tls-certificate=FILE"),
                    HasSubstr("--tls-key=FILE")));
  EXPECT_EQ(PlaintextWarning({.listen = {"127.0.0.1:1", "unix:/a"}, .insecure = true}), "");
  EXPECT_THAT(PlaintextWarning({.listen = {"unix:/a"}, .admin_listen = "[::]:3", .insecure = true}),
              HasSubstr("[::]:3"));
  EXPECT_EQ(
      PlaintextWarning(
          {.listen = {"0.0.0.0:2"}, .insecure = true, .tls_certificate = "c", .tls_key = "k"}),
      "");
}

TEST(ExposureTest, AdministratorsOfOtherMachinesAreAsked) {
  ServerOptions options = {.admin_listen = "0.0.0.0:3", .tls_certificate = "c", .tls_key = "k"};
  EXPECT_THAT(CheckExposure(options), IsRefused("would administer the server at 0.0.0.0:3"));
  EXPECT_TRUE(TrustsAdminListener(options)) << "who says --insecure means it";
  options.tls_client_ca = "a";
  EXPECT_THAT(CheckExposure(options), IsRefused("nothing tells administrators from other callers"))
      << "every client has a certificate";
  EXPECT_THAT(CheckExposure(options), IsRefused("--tokens"));
  options.tls_client_ca = "";
  options.tokens = "t";
  EXPECT_THAT(CheckExposure(options), IsOk());
  EXPECT_FALSE(TrustsAdminListener(options));
  options.admin_listen = "127.0.0.1:3";
  EXPECT_TRUE(TrustsAdminListener(options));
}

TEST(ExposureTest, HealthMayBePlaintext) {
  EXPECT_THAT(CheckExposure({.health_listen = "0.0.0.0:4"}), IsOk());
  EXPECT_THAT(CheckExposure({.health_listen = "here"}),
              IsRefused("--health-listen: expected HOST"));
}

TEST(ExposureTest, MetricsArePlaintextBeyondThisMachineOnlyWhenThatIsMeant) {
  EXPECT_THAT(CheckExposure({.metrics_listen = "nonsense"}),
              IsRefused("--metrics-listen: expected HOST"));
  EXPECT_THAT(CheckExposure({.metrics_listen = "127.0.0.1:2"}), IsOk());
  ServerOptions options = {.tls_certificate = "c", .tls_key = "k", .metrics_listen = "0.0.0.0:2"};
  EXPECT_THAT(CheckExposure(options),
              IsRefused("--metrics-listen: other machines would reach 0.0.0.0:2 in plaintext"));
  options.metrics_insecure = true;
  EXPECT_THAT(CheckExposure(options), IsOk());
  options.listen = {"0.0.0.0:1"};
  options.tls_certificate = options.tls_key = "";
  EXPECT_THAT(CheckExposure(options), IsRefused("--listen: other machines would reach 0.0.0.0:1"))
      << "it says nothing of the other addresses";
  options.insecure = true;
  options.metrics_insecure = false;
  EXPECT_THAT(CheckExposure(options), IsOk());
}

}  // namespace
}  // namespace attention
