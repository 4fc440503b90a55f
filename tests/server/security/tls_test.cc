// TLS as clients meet it: whom it lets in, and what becomes of new certificates.
#include <filesystem>

#include "gmock/gmock.h"
#include "server/security/guards.h"
#include "tests/server/security/secure_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

/// A server whose certificate can be replaced.
class TlsTest : public ::testing::Test {
 protected:
  /// Replaces the files as a renewal does: each is there whole or not at all.
  void Install(const std::string& certificate, const std::string& key) const {
    for (const auto& [source, target] :
         {std::pair(certificate + ".pem", "tls.crt"), std::pair(key + ".key", "tls.key")}) {
      fs::copy_file(TlsFile(source), folder_.path() + "/next");
      fs::rename(folder_.path() + "/next", folder_.path() + "/" + target);
    }
  }
  ServerOptions Options() const {
    return {.tls_certificate = folder_.path() + "/tls.crt", .tls_key = folder_.path() + "/tls.key"};
  }

  const TempFolder folder_;
};

TEST_F(TlsTest, ServesThoseWhoTrustItsAuthority) {
  Install("server", "server");
  const InProcessServer server(Options());
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa())), IsOk());
  EXPECT_THAT(Attend(Connect(server.address(), TrustingCa("other_ca.pem"))),
              StatusIs(kUnavailable, HasSubstr("")));
  EXPECT_THAT(Attend(Connect(server.address(), grpc::InsecureChannelCredentials())),
              StatusIs(kUnavailable, HasSubstr("")));
}

TEST_F(TlsTest, NewConnectionsHaveTheNewCertificateAndOldOnesLive) {
  Install("other_server", "other_server");
  const InProcessServer server(Options());
  const auto old = Connected(server.address(), TrustingCa("other_ca.pem"));
  EXPECT_THAT(Attend(old), IsOk());
  Install("server", "server");
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa())), IsOk());
  EXPECT_THAT(Attend(Connect(server.address(), TrustingCa("other_ca.pem"))),
              StatusIs(kUnavailable, HasSubstr("")));
  EXPECT_THAT(Attend(old), IsOk()) << "a connection keeps the certificate that it began with";
}

TEST_F(TlsTest, EveryAddressHasTheNewCertificate) {
  Install("other_server", "other_server");
  ServerOptions options = Options();
  options.admin_listen = "127.0.0.1:0";
  InProcessServer server(options);
  const std::string admin = server.server().admin_address();
  Install("server", "server");
  for (const std::string& address : {server.address(), admin, server.address()}) {
    EXPECT_THAT(Attend(Connected(address, TrustingCa())), IsOk()) << address;
  }
}

TEST_F(TlsTest, ABrokenPairLeavesTheOldOne) {
  Install("server", "server");
  const InProcessServer server(Options());
  Install("renewed_server", "server");
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa())), IsOk()) << "key of another";
  fs::remove(folder_.path() + "/tls.key");
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa())), IsOk()) << "no key";
  folder_.Write("tls.crt", "nothing of the kind");
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa())), IsOk()) << "no certificate";
  Install("other_server", "other_server");
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa("other_ca.pem"))), IsOk())
      << "what is whole again is used";
}

TEST_F(TlsTest, RefusesKeysWithWhichNobodyCanConnect) {
  for (const char* const name : {"weak_server", "curve_server"}) {
    Install(name, name);
    EXPECT_THAT(
        Server::Check(Options()),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 StartsWith("--tls-certificate: expected a certificate and a key with which "
                            "TLS connections can be made, found that OpenSSL makes none "
                            "with those in " +
                            folder_.path() + "/tls.crt: ")))
        << name;
    Install("server", "server");
    const absl::StatusOr<Guards> guards = OpenGuards(Options());
    ASSERT_THAT(guards, IsOk());
    const auto before = guards->certificates->Latest();
    Install(name, name);
    EXPECT_EQ(guards->certificates->Latest(), before) << name;
    EXPECT_THAT(guards->CheckFiles(), ElementsAre(Pair("--tls-certificate", false))) << name;
  }
}

TEST_F(TlsTest, TellsWhenTheCertificateExpires) {
  Install("server", "server");
  const absl::StatusOr<Guards> guards = OpenGuards(Options());
  ASSERT_THAT(guards, IsOk());
  const auto expiry = [&] { return guards->certificates->Latest()->not_after; };
  EXPECT_EQ(expiry(), absl::FromUnixSeconds(4733510400)) << "2120";
  Install("expired_server", "expired_server");
  EXPECT_EQ(expiry(), absl::FromUnixSeconds(1609459200)) << "2021";
}

TEST_F(TlsTest, TellsWhetherTheFilesCanBeUsed) {
  Install("server", "server");
  const absl::StatusOr<Guards> guards = OpenGuards(Options());
  ASSERT_THAT(guards, IsOk());
  EXPECT_THAT(guards->CheckFiles(), ElementsAre(Pair("--tls-certificate", true)));
  Install("renewed_server", "server");
  EXPECT_THAT(guards->CheckFiles(), ElementsAre(Pair("--tls-certificate", false)));
  EXPECT_THAT(guards->CheckFiles(), ElementsAre(Pair("--tls-certificate", false))) << "still so";
  Install("other_server", "other_server");
  EXPECT_THAT(guards->CheckFiles(), ElementsAre(Pair("--tls-certificate", true)));
  EXPECT_THAT(OpenGuards(ServerOptions())->CheckFiles(), IsEmpty());
}

TEST_F(TlsTest, ClientsRefuseAnExpiredCertificate) {
  Install("expired_server", "expired_server");
  const InProcessServer server(Options());
  EXPECT_THAT(Attend(Connect(server.address(), TrustingCa())),
              StatusIs(kUnavailable, HasSubstr("")));
}

TEST_F(TlsTest, ClientsShowACertificateWhereOneIsExpected) {
  Install("server", "server");
  ServerOptions options = Options();
  options.tls_client_ca = TlsFile("ca.pem");
  options.logged_requests = LoggedRequests::kAll;
  InProcessServer server(options);
  EXPECT_THAT(Attend(Connect(server.address(), TrustingCa("ca.pem", "other_client"))),
              StatusIs(kUnavailable, HasSubstr("")));
  EXPECT_THAT(Attend(Connect(server.address(), TrustingCa())),
              StatusIs(kUnavailable, HasSubstr("")));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Attend(Connected(server.address(), TrustingCa("ca.pem", "client"))), IsOk());
  server.server().Drain(absl::Minutes(5));  // then the log has the line
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("tenant=attend-test-client"));
}

TEST_F(TlsTest, DoesNotStartWithoutAWholePair) {
  Install("server", "renewed_server");
  EXPECT_THAT(Server::Check(Options()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("--tls-key: expected the key of the certificate in ")));
  folder_.Write("tls.key", "");
  EXPECT_THAT(Server::Check(Options()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("--tls-key: expected a file with PEM text, found none in ")));
  ServerOptions options = Options();
  options.tls_key = folder_.path() + "/none";
  EXPECT_THAT(Server::Check(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                               "--tls-key: cannot read " + options.tls_key +
                                                   ": No such file or directory"));
}

TEST_F(TlsTest, RefusesFilesWithAPartThatIsBroken) {
  Install("server", "server");
  const std::string one = TextOf(TlsFile("server.pem")), other = TextOf(TlsFile("ca.pem"));
  const auto check = [&](const char* flag, const std::string& text) {
    ServerOptions options = Options();
    options.tls_client_ca = TlsFile("ca.pem");
    std::string& path =
        flag == std::string("--tls-certificate") ? options.tls_certificate : options.tls_client_ca;
    path = folder_.Write("chain", text);
    return Server::Check(options);
  };
  for (const char* flag : {"--tls-certificate", "--tls-client-ca"}) {
    EXPECT_THAT(check(flag, one + other), IsOk());
    EXPECT_THAT(check(flag, one + TextOf(TlsFile("server.key"))), IsOk());
    std::string broken = one + other;
    broken[one.size() + other.size() / 2] = '!';
    for (const std::string& text : {broken, (one + other).substr(0, one.size() + 200)}) {
      EXPECT_THAT(check(flag, text),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           StartsWith(absl::StrCat(flag, ": expected 2 whole certificates"))));
    }
  }
}

}  // namespace
}  // namespace attention
