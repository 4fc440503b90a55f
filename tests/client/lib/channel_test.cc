// How the client reaches a server by TLS, and whom it believes.
#include "client/lib/channel.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/client/lib/metadata_server.h"
#include "tests/support/localhost.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TlsFile(const std::string& name) {
  return absl::StrCat(ATTEND_TEST_DATA, "/tls/", name);
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

/// With certificate `name` of tests/data/tls; clients must show one of `ca` if `asks_clients`.
std::shared_ptr<grpc::ServerCredentials> TlsServer(const std::string& name,
                                                   bool asks_clients = false) {
  grpc::SslServerCredentialsOptions options(
      asks_clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back(
      {Read(TlsFile(name + ".key")), Read(TlsFile(name + ".pem"))});
  if (asks_clients) {
    options.pem_root_certs = Read(TlsFile("ca.pem"));
  }
  return grpc::SslServerCredentials(options);
}

ConnectionOptions Tls(const MetadataServer& server, const TlsOptions& tls) {
  return {.server = server.address(), .tls = tls};
}

TEST(ChannelTest, AServerOfTheAuthorityIsBelieved) {
  const MetadataServer server(TlsServer("server"), "127.0.0.1");
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem")})), IsOk());
}

TEST(ChannelTest, AServerOfTheAuthorityIsBelievedByItsName) {
  if (!KnowsLocalhost()) {
    GTEST_SKIP() << kNoLocalhost;
  }
  const MetadataServer server(TlsServer("server"), "localhost");
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem")})), IsOk());
}

TEST(ChannelTest, AServerOfAnotherAuthorityIsNotBelieved) {
  const MetadataServer server(TlsServer("other_server"));
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem")})),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(server.address()), HasSubstr("handshake"))));
  EXPECT_THAT(Ask(Tls(server, {})),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(server.address())));
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("other_ca.pem")})), IsOk());
}

TEST(ChannelTest, AnExpiredServerIsNotBelieved) {
  const MetadataServer server(TlsServer("expired_server"));
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem")})),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("handshake")));
}

TEST(ChannelTest, TheServersNameIsThatOfTheAddressOrTheOneGiven) {
  const MetadataServer server(TlsServer("server"));
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem"), .server_name = "localhost"})), IsOk());
  EXPECT_THAT(Ask(Tls(server, {.ca_file = TlsFile("ca.pem"), .server_name = "elsewhere.test"})),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("elsewhere.test")));
}

TEST(ChannelTest, AListHasOneNameForAllCertificates) {
  const MetadataServer one(TlsServer("server")), other(TlsServer("renewed_server"));
  const TlsOptions tls = {.ca_file = TlsFile("ca.pem")};
  const std::string port = one.address().substr(one.address().rfind(':'));
  EXPECT_THAT(Ask({.server = absl::StrCat(one.address(), ",", other.address()), .tls = tls}),
              IsOk());
  const std::string different = absl::StrCat("localhost", port, ",", other.address());
  EXPECT_THAT(Ask({.server = different, .tls = tls}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server_name: expected")));
  EXPECT_THAT(Ask({.server = different,
                   .tls = TlsOptions{.ca_file = TlsFile("ca.pem"), .server_name = "localhost"}}),
              IsOk());
}

TEST(ChannelTest, AServerMayAskWhoTheClientIs) {
  const MetadataServer server(TlsServer("server", /*asks_clients=*/true));
  TlsOptions tls = {.ca_file = TlsFile("ca.pem")};
  EXPECT_THAT(Ask(Tls(server, tls)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(server.address())));
  tls.certificate_file = TlsFile("other_client.pem");
  tls.key_file = TlsFile("other_client.key");
  EXPECT_THAT(Ask(Tls(server, tls)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(server.address())));
  EXPECT_EQ(server.client(), "");
  tls.certificate_file = TlsFile("client.pem");
  tls.key_file = TlsFile("client.key");
  EXPECT_THAT(Ask(Tls(server, tls)), IsOk());
  EXPECT_EQ(server.client(), "attend-test-client");
}

TEST(ChannelTest, PlaintextAndTlsDoNotMix) {
  const MetadataServer tls_server(TlsServer("server")), plain_server;
  EXPECT_THAT(Ask({.server = tls_server.address()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(tls_server.address())));
  EXPECT_THAT(Ask(Tls(plain_server, {.ca_file = TlsFile("ca.pem")})),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(plain_server.address())));
}

TEST(ChannelTest, FilesThatHoldSomethingElseAreNamed) {
  const TempFolder folder;
  const std::string empty = folder.Write("empty.pem", "");
  const std::string absent = folder.path() + "/absent.pem";
  const std::string key = TlsFile("client.key"), certificate = TlsFile("client.pem");
  const auto refused = [](const char* what, const std::string& path) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    absl::StrCat(what, ", found none at ", path));
  };
  for (const std::string& file : {empty, key}) {
    EXPECT_THAT(Ask({.tls = TlsOptions{.ca_file = file}}),
                refused("ca: expected a file with a PEM certificate", file));
  }
  EXPECT_THAT(Ask({.tls = TlsOptions{.ca_file = absent}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("ca: cannot read ", absent, ": No such file or directory")));
  EXPECT_THAT(Ask({.tls = TlsOptions{.certificate_file = key, .key_file = key}}),
              refused("certificate: expected a file with a PEM certificate", key));
  EXPECT_THAT(Ask({.tls = TlsOptions{.certificate_file = certificate, .key_file = certificate}}),
              refused("key: expected a file with a PEM private key", certificate));
  EXPECT_THAT(
      Ask({.tls = TlsOptions{.key_file = "k.pem"}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "certificate and key: expected both or none, found no certificate to k.pem"));
}

TEST(ChannelTest, PemTextInPlaceOfAPathIsNotShown) {
  const std::string key = Read(TlsFile("client.key")), certificate = TlsFile("client.pem");
  for (const TlsOptions& tls : {TlsOptions{.ca_file = key}, TlsOptions{.key_file = key},
                                TlsOptions{.certificate_file = certificate, .key_file = key}}) {
    EXPECT_THAT(Ask({.tls = tls}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("PEM text in place of a path"), Not(HasSubstr("BEGIN")))));
  }
}

}  // namespace
}  // namespace attention
