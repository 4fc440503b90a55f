#include "client/cli/flags/server_flags.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::string kTls = ATTEND_TEST_DATA "/tls/";

class ServerFlagsTest : public ::testing::Test {
 protected:
  ServerFlagsTest() { AddServerFlags(app_, flags_); }

  /// The parser's complaint; empty when it has none.
  std::string Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_;
  ClientOptions flags_;
  const TempFolder folder_;
};

TEST_F(ServerFlagsTest, WrongValuesAreQuoted) {
  EXPECT_THAT(Parse({"--server", ""}), HasSubstr("expected host:port or unix:/path, found \"\""));
  EXPECT_THAT(Parse({"--timeout", "0"}), HasSubstr("expected more than 0 seconds, found \"0\""));
}

TEST_F(ServerFlagsTest, WhatNoServerCouldBeAskedWithIsWrongUsage) {
  ClientOptions options;
  options.connection.server = "127.0.0.1";
  EXPECT_THROW(Connect(options).IgnoreError(), CLI::ValidationError);
  options.connection.server = "127.0.0.1:1";
  EXPECT_THAT(Connect(options), IsOk());
  options.connection.metadata = {{"a b", "c"}};
  EXPECT_THROW(Connect(options).IgnoreError(), CLI::ValidationError);
}

TEST_F(ServerFlagsTest, PlaintextToThisMachineIsTheDefault) {
  ASSERT_EQ(Parse({}), "");
  EXPECT_EQ(flags_.connection.server, "127.0.0.1:8001");
  EXPECT_FALSE(flags_.connection.tls.has_value());
  EXPECT_EQ(flags_.connection.token, "");
  EXPECT_THAT(flags_.connection.metadata, ElementsAre());
  EXPECT_EQ(flags_.timeout, absl::Seconds(30));
}

TEST_F(ServerFlagsTest, RetriesAreSwitched) {
  EXPECT_TRUE(flags_.connection.retries);
  ASSERT_EQ(Parse({"--no-retries"}), "");
  EXPECT_FALSE(flags_.connection.retries);
  ASSERT_EQ(Parse({"--retries"}), "");
  EXPECT_TRUE(flags_.connection.retries);
}

TEST_F(ServerFlagsTest, TlsWithTheSystemsAuthorities) {
  ASSERT_EQ(Parse({"--server=attend.test:1", "--tls"}), "");
  ASSERT_TRUE(flags_.connection.tls.has_value());
  EXPECT_EQ(flags_.connection.tls->ca_file, "");
  EXPECT_THAT(AttentionClient::Connect(flags_), IsOk());
}

TEST_F(ServerFlagsTest, TlsSwitchedOffIsPlaintext) {
  ASSERT_EQ(Parse({"--tls=false"}), "");
  EXPECT_FALSE(flags_.connection.tls.has_value());
}

TEST_F(ServerFlagsTest, AnyTlsFlagTurnsTlsOn) {
  ASSERT_EQ(Parse({"--ca", kTls + "ca.pem", "--certificate", kTls + "client.pem",
                   "--certificate-key", kTls + "client.key", "--server-name=attend.test"}),
            "");
  ASSERT_TRUE(flags_.connection.tls.has_value());
  const TlsOptions& tls = *flags_.connection.tls;
  EXPECT_EQ(tls.ca_file, kTls + "ca.pem");
  EXPECT_EQ(tls.certificate_file, kTls + "client.pem");
  EXPECT_EQ(tls.key_file, kTls + "client.key");
  EXPECT_EQ(tls.server_name, "attend.test");
  EXPECT_THAT(AttentionClient::Connect(flags_), IsOk());
}

TEST_F(ServerFlagsTest, FilesAreThereAndCertificatesHaveKeys) {
  EXPECT_THAT(Parse({"--ca=/absent.pem"}), HasSubstr("/absent.pem"));
  EXPECT_THAT(Parse({"--certificate", kTls + "client.pem"}), HasSubstr("--certificate-key"));
  EXPECT_EQ(Parse({"--certificate-key", kTls + "client.key"}),
            "--certificate-key requires --certificate");
}

TEST_F(ServerFlagsTest, TokensAreReadFromFiles) {
  ASSERT_EQ(Parse({"--token-file", folder_.Write("token", "  s3cret\n")}), "");
  EXPECT_EQ(flags_.connection.token, "s3cret");
  EXPECT_THAT(Parse({"--token-file", folder_.Write("none", "\n")}),
              HasSubstr("none: expected a token, found none"));
  EXPECT_THAT(Parse({"--token-file=/absent"}), HasSubstr("cannot read /absent: No such file"));
}

TEST_F(ServerFlagsTest, MetadataComesInPairs) {
  ASSERT_EQ(Parse({"--metadata", "Attend-Tenant=a=b", "--metadata=empty=", "--metadata", "x=y,z"}),
            "");
  EXPECT_THAT(flags_.connection.metadata,
              ElementsAre(Pair("attend-tenant", "a=b"), Pair("empty", ""), Pair("x", "y,z")));
  for (const char* text : {"--metadata=alone", "--metadata==x"}) {
    EXPECT_THAT(Parse({text}), HasSubstr("expected KEY=VALUE")) << text;
  }
}

}  // namespace
}  // namespace attention
