#include "server/configuration/settings.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/command_line.h"
#include "server/configuration/option_table.h"
#include "server/observability/url_secret.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SettingsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ParsedCommandLine> Parse(const std::string& file,
                                          std::vector<std::string> arguments = {},
                                          const Environment& environment = {}) {
    arguments.push_back("--config=" + folder_.Write("attend.json", file));
    return ParseCommandLine(arguments, environment);
  }

  std::string path() const { return folder_.path() + "/attend.json"; }

  const TempFolder folder_;
};

TEST_F(SettingsTest, FlagsWinOverTheEnvironmentAndThatOverTheFile) {
  const auto parsed =
      Parse(R"({"threads": 1, "max_sessions": 1, "max_batch_tokens": 1})", {"--threads=3"},
            {{"ATTEND_THREADS", "2"}, {"ATTEND_MAX_SESSIONS", "2"}});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->options.threads, 3);
  EXPECT_EQ(parsed->options.max_sessions, 2);
  EXPECT_EQ(parsed->options.max_batch_tokens, 1);
  EXPECT_EQ(parsed->options.max_queue_requests, 8192) << "by default";
}

TEST_F(SettingsTest, AListOfOneSourceReplacesThoseOfOthers) {
  const std::string file = R"({"listen": ["a:1", "b:2"]})";
  EXPECT_THAT(Parse(file)->options.listen, ElementsAre("a:1", "b:2"));
  EXPECT_THAT(Parse(file, {}, {{"ATTEND_LISTEN", "c:3;unix:/d"}})->options.listen,
              ElementsAre("c:3", "unix:/d"));
  EXPECT_THAT(Parse(file, {}, {{"ATTEND_LISTEN", ";"}})->options.listen, ElementsAre("a:1", "b:2"))
      << "a variable without values is not set";
  EXPECT_THAT(Parse(file, {"--listen=e:5"})->options.listen, ElementsAre("e:5"));
}

TEST_F(SettingsTest, AFileHasEachTypeAsJsonHasIt) {
  const auto parsed = Parse(R"({
    // why: a comment
    "listen": "one:1", "grace_period": 1.5, "max_queue_wait": "2s", "allow_shared_memory": true,
    "log_requests": "all", "random_model": ["a:d_model=64,num_heads=2"], "models": null})");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->options.listen, ElementsAre("one:1"));
  EXPECT_EQ(parsed->options.grace_period, absl::Milliseconds(1500));
  EXPECT_EQ(parsed->options.max_queue_wait, absl::Seconds(2));
  EXPECT_TRUE(parsed->options.allow_shared_memory);
  EXPECT_EQ(parsed->options.logged_requests, LoggedRequests::kAll);
  EXPECT_EQ(parsed->options.random_models[0].d_model, 64);
  EXPECT_EQ(parsed->options.models.folder.path, "");
}

TEST_F(SettingsTest, TheEnvironmentCanNameTheFile) {
  const std::string file = folder_.Write("other.json", R"({"threads": 5})");
  EXPECT_EQ(ParseCommandLine({}, {{"ATTEND_CONFIG", file}})->options.threads, 5);
  EXPECT_EQ(ParseCommandLine({"--config=" + folder_.Write("a.json", R"({"threads": 6})")},
                             {{"ATTEND_CONFIG", file}})
                ->options.threads,
            6);
}

TEST_F(SettingsTest, AnEmptyVariableIsNone) {
  EXPECT_EQ(ParseCommandLine({}, {{"ATTEND_THREADS", ""}})->options.threads, 0);
}

TEST_F(SettingsTest, ErrorsNameFileAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"threads": "two"})", ": threads: expected a number, found string \"two\""},
      {R"({"threads": 1.5})", ": threads: expected a whole number of 0 to 4096, found 1.5"},
      {R"({"threads": 5000})", ": threads: expected a whole number of 0 to 4096, found 5000"},
      {R"({"threads": [1]})", ": threads: expected one value, found array [1]"},
      {R"({"allow_shared_memory": 1})",
       ": allow_shared_memory: expected true or false, found number 1"},
      {R"({"listen": [1]})", ": listen: expected a string, found number 1"},
      {R"({"max_queue_wait": true})",
       ": max_queue_wait: expected a duration, as 30 (seconds), 30s or 1m30s, found boolean true"},
      {R"({"log_requests": "most"})",
       ": log_requests: expected one of none|failed|all, found most"},
      {R"({"grace_period": "soon"})",
       ": grace_period: expected 0, or 1 ms to 24 hours, as 30 (seconds), 30s or 1m30s, found "
       "soon"},
      {R"({"thread": 1})", ": thread: no option has this key; the nearest is threads"},
      {R"({"max-sessions": 1})",
       ": max-sessions: no option has this key; the nearest is max_sessions"},
      {R"({"colour": 1})", ": colour: no option has this key"},
      {R"({"threads": 1, "threads": 2})", ": threads: given twice"},
      {R"({"threads": 3E999})", ": number overflow parsing '3E999'"},
      {R"({"weights_dtype": "bf16"})", ": weights_dtype requires --models"},
      {"[]", ": expected a JSON object, found array"}};
  for (const auto& [file, error] : cases) {
    EXPECT_THAT(Parse(file), StatusIs(kInvalid, path() + error)) << file;
  }
  EXPECT_THAT(Parse("{\n  \"threads\": 1,\n}"), StatusIs(kInvalid, HasSubstr(": parse error at "
                                                                             "line 3, column 1")));
  EXPECT_THAT(
      ParseCommandLine({"--config=/none.json"}),
      StatusIs(absl::StatusCode::kNotFound, "cannot read /none.json: No such file or directory"));
}

TEST_F(SettingsTest, ErrorsNameTheVariable) {
  EXPECT_THAT(
      ParseCommandLine({}, {{"ATTEND_THREADS", "two"}}),
      StatusIs(kInvalid, "ATTEND_THREADS: expected a whole number of 0 to 4096, found two"));
  EXPECT_THAT(
      ParseCommandLine({}, {{"ATTEND_ALLOW_SHARED_MEMORY", "maybe"}}),
      StatusIs(kInvalid, "ATTEND_ALLOW_SHARED_MEMORY: expected true or false, found maybe"));
}

TEST_F(SettingsTest, UnknownFlagsNameTheNearest) {
  EXPECT_THAT(ParseCommandLine({"--listne=x"}),
              StatusIs(kInvalid,
                       "--listne=x: no option has this name; the nearest is --listen; see "
                       "attend-server --help"));
}

TEST_F(SettingsTest, VariablesThatAreNearlyAnOptionsNameTheNearest) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"ATTEND_THREAD", "ATTEND_THREADS"},
      {"ATTEND_threads", "ATTEND_THREADS"},
      {"ATTEND_OTLP_ENDPONT", "ATTEND_OTLP_ENDPOINT"},
      {"ATTEND_CONFG", "ATTEND_CONFIG"},
      {"ATTEND_MAX-SESSIONS", "ATTEND_MAX_SESSIONS"}};
  for (const auto& [found, nearest] : cases) {
    EXPECT_THAT(
        ParseCommandLine({}, {{found, "1"}}),
        StatusIs(kInvalid, found + ": no option has this variable; the nearest is " + nearest));
  }
}

// A process cannot choose all of its environment: Kubernetes puts the services' addresses there.
TEST_F(SettingsTest, WarnsOfUnknownVariablesButNotOfThoseThatKubernetesMakes) {
  const auto parsed = ParseCommandLine({}, {{"ATTEND_HOME", "/srv/attend"},
                                            {"ATTEND_METRICS_TOKEN", "x"},
                                            {"ATTEND_SERVICE_HOST", "10.0.0.1"},
                                            {"ATTEND_SERVICE_PORT_GRPC", "8001"},
                                            {"ATTEND_PORT", "tcp://10.0.0.1:8001"},
                                            {"ATTEND_PORT_8001_TCP_ADDR", "10.0.0.1"},
                                            {"OTHER", "1"}});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->warnings,
              ElementsAre("ATTEND_HOME: no option has this variable",
                          "ATTEND_METRICS_TOKEN: no option has this variable; the nearest is "
                          "ATTEND_METRICS_LISTEN"));
}

TEST_F(SettingsTest, ASizeMayHaveAUnit) {
  const auto size = [](const std::string& text) {
    const auto parsed = ParseCommandLine({"--max-cache-bytes=" + text});
    EXPECT_THAT(parsed, IsOk()) << text;
    return parsed.ok() ? parsed->options.max_cache_bytes : -1;
  };
  EXPECT_EQ(size("123"), 123);
  EXPECT_EQ(size("123B"), 123);
  EXPECT_EQ(size("2k"), 2000);
  EXPECT_EQ(size("2K"), 2000);
  EXPECT_EQ(size("2Ki"), 2048);
  EXPECT_EQ(size("500MB"), 500'000'000);
  EXPECT_EQ(size("3Mi"), 3 << 20);
  EXPECT_EQ(size("10GB"), 10'000'000'000);
  EXPECT_EQ(size("10GiB"), int64_t{10} << 30);
  EXPECT_EQ(size("1T"), 1'000'000'000'000);
  EXPECT_EQ(size("8388607Ti"), int64_t{8'388'607} << 40) << "the largest";
  const auto parsed = Parse(R"({"prefix_cache_bytes": "1Gi", "max_cache_bytes": 2e9})", {},
                            {{"ATTEND_MAX_QUEUE_BYTES", "5M"}});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->options.prefix_cache_bytes, int64_t{1} << 30);
  EXPECT_EQ(parsed->options.max_cache_bytes, 2'000'000'000);
  EXPECT_EQ(parsed->options.max_queue_bytes, 5'000'000);
  const auto printed = ParseCommandLine({"--print-config", "--max-queue-bytes=2Gi"});
  ASSERT_THAT(printed, IsOk());
  EXPECT_EQ(nlohmann::json::parse(printed->text)["max_queue_bytes"], int64_t{2} << 30);
}

TEST_F(SettingsTest, AWrongSizeIsNamedWithTheUnits) {
  const std::string expected =
      "expected 1 to 2147483647 bytes, as a whole number or one with a unit: K, M, G, T (powers of "
      "1000) or Ki, Mi, Gi, Ti (powers of 1024), found ";
  for (const std::string text : {"10GB", "0", "0Gi", "-1", "1.5G", "1 G", "Gi", "1Kib", "1BB",
                                 "1gb", "1ki", "99999999999999999999", "9223372036854775807Ti"}) {
    EXPECT_THAT(ParseCommandLine({"--max-message-bytes=" + text}),
                StatusIs(kInvalid, "--max-message-bytes: " + expected + text));
  }
  EXPECT_THAT(Parse(R"({"max_message_bytes": "2Gi"})"),
              StatusIs(kInvalid, path() + ": max_message_bytes: " + expected + "2Gi"));
  EXPECT_THAT(ParseCommandLine({}, {{"ATTEND_MAX_MESSAGE_BYTES", "much"}}),
              StatusIs(kInvalid, "ATTEND_MAX_MESSAGE_BYTES: " + expected + "much"));
}

TEST_F(SettingsTest, AShareIsANumber) {
  const auto parsed =
      Parse(R"({"otlp_endpoint": "http://localhost:4318", "trace_sample_ratio": 0.25})",
            {"--print-config"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->options.trace_sample_ratio, 0.25);
  EXPECT_EQ(nlohmann::json::parse(parsed->text)["trace_sample_ratio"], 0.25);
  const auto ours = ParseCommandLine(
      {"--otlp-endpoint=http://localhost:4318", "--trace-sample-ratio=.5", "--print-config"});
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(nlohmann::json::parse(ours->text)["trace_sample_ratio"], 0.5);
  for (const std::string wrong : {"-0.1", "1.1", "nan", "half"}) {
    EXPECT_THAT(
        ParseCommandLine({"--trace-sample-ratio=" + wrong}),
        StatusIs(kInvalid, "--trace-sample-ratio: expected a share of 0 to 1, found " + wrong));
  }
}

TEST_F(SettingsTest, TheSchemaKnowsEveryKeyWithItsDefault) {
  const auto schema =
      nlohmann::json::parse(ParseCommandLine({"--print-config-schema", "--threads=3"})->text);
  const auto printed = nlohmann::json::parse(ParseCommandLine({"--print-config"})->text);
  ASSERT_EQ(schema["properties"].size(), printed.size() + 1) << "$schema";
  for (const auto& [key, value] : printed.items()) {
    EXPECT_EQ(schema["properties"][key]["default"], value) << key;
    EXPECT_FALSE(schema["properties"][key]["description"].empty()) << key;
  }
}

TEST_F(SettingsTest, WhatIsPrintedCanBeFedBack) {
  const auto first =
      ParseCommandLine({"--print-config", "--threads=3", "--listen=a:1", "--listen=unix:/b",
                        "--random-model=m:d_model=64,num_heads=2", "--allow-shared-memory",
                        "--grace-period=1m30s", "--models=/m", "--model-versions=all"});
  ASSERT_THAT(first, IsOk());
  const auto printed = nlohmann::json::parse(first->text);
  EXPECT_EQ(printed["threads"], 3);
  EXPECT_EQ(printed["allow_shared_memory"], true);
  EXPECT_EQ(printed["tls_key"], nullptr);
  EXPECT_EQ(printed["max_queue_wait"], "5s");
  const auto again = Parse(first->text, {"--print-config"});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->text, first->text);
  EXPECT_EQ(again->options.random_models.size(), 1);
}

TEST_F(SettingsTest, PrintsEveryOption) {
  const auto printed = nlohmann::json::parse(ParseCommandLine({"--print-config"})->text);
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      EXPECT_TRUE(printed.contains(KeyOf(option.name))) << option.name;
    }
  }
}

TEST_F(SettingsTest, PrintsNoUserAndPasswordOfAUrl) {
  Settings settings = {{"models", {{"https://user:word@host/path"}, "--models"}}};
  const std::string printed = ToJson(settings);
  EXPECT_THAT(printed, HasSubstr("\"https://hidden@host/path\""));
  EXPECT_THAT(
      Parse(printed),
      StatusIs(kInvalid,
               EndsWith(": models: expected user and password in the URL, found \"hidden\", "
                        "which --print-config writes in their place")));
}

TEST_F(SettingsTest, HidesWhateverStandsBeforeTheHost) {
  EXPECT_EQ(WithoutSecret("http://user:se@cret@host:4318/v1"), "http://hidden@host:4318/v1");
  EXPECT_EQ(WithoutSecret("http://host/a@b"), "http://host/a@b");
  EXPECT_EQ(WithoutSecret("http://key@host?q=/"), "http://hidden@host?q=/");
  EXPECT_EQ(WithoutSecret("/models/a@b"), "/models/a@b");
}

TEST_F(SettingsTest, PrintsValuesAsAFileHasThem) {
  const auto parsed =
      ParseCommandLine({"--print-config"}, {{"ATTEND_INSECURE", "1"}, {"ATTEND_THREADS", "+2"}});
  ASSERT_THAT(parsed, IsOk());
  const auto printed = nlohmann::json::parse(parsed->text);
  EXPECT_EQ(printed["insecure"], true);
  EXPECT_EQ(printed["threads"], 2);
  EXPECT_THAT(Parse(parsed->text), IsOk());
}

TEST_F(SettingsTest, RefusesAFileThatAParserWouldDrownIn) {
  for (const std::string key : {"threads", "listen"}) {
    EXPECT_THAT(Parse("{\"" + key + "\": " + std::string(300'000, '[')),
                StatusIs(kInvalid, HasSubstr("levels of nesting, found more")));
  }
}

TEST_F(SettingsTest, PrintsTextsThatAreNoUtf8) {
  const auto parsed = ParseCommandLine({"--models=/x\xff", "--print-config"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(nlohmann::json::parse(parsed->text)["models"], "/x\xef\xbf\xbd");
}

TEST_F(SettingsTest, KnowsWhichAddressesNobodyAskedFor) {
  const ServerOptions own = ParseCommandLine({})->options;
  EXPECT_TRUE(own.is_default_admin_listen);
  EXPECT_TRUE(own.is_default_metrics_listen);
  const ServerOptions asked = ParseCommandLine({"--metrics-listen=127.0.0.1:8002"},
                                               {{"ATTEND_ADMIN_LISTEN", "127.0.0.1:8003"}})
                                  ->options;
  EXPECT_FALSE(asked.is_default_admin_listen);
  EXPECT_FALSE(asked.is_default_metrics_listen);
}

TEST_F(SettingsTest, AdministratorsAreServedOnThisMachineUnlessTurnedOff) {
  EXPECT_EQ(ParseCommandLine({})->options.admin_listen, "127.0.0.1:8003");
  EXPECT_EQ(ParseCommandLine({"--admin-listen=none"})->options.admin_listen, "");
  EXPECT_EQ(ParseCommandLine({})->options.health_listen, "");
  EXPECT_EQ(ParseCommandLine({"--health-listen=0.0.0.0:8004"})->options.health_listen,
            "0.0.0.0:8004");
}

TEST_F(SettingsTest, TlsNeedsBothFiles) {
  EXPECT_THAT(ParseCommandLine({"--tls-certificate=c"}),
              StatusIs(kInvalid, "--tls-certificate requires --tls-key"));
  EXPECT_THAT(ParseCommandLine({}, {{"ATTEND_TLS_CLIENT_CA", "a"}}),
              StatusIs(kInvalid, "ATTEND_TLS_CLIENT_CA requires --tls-certificate"));
}

TEST_F(SettingsTest, MakesATokenWithoutServing) {
  EXPECT_THAT(ParseCommandLine({"--make-token=search"})->text, HasSubstr("\"tenant\": \"search\""));
}

TEST_F(SettingsTest, ChecksWithoutServing) {
  EXPECT_TRUE(ParseCommandLine({"--check-config"})->is_check);
  EXPECT_THAT(ParseCommandLine({"--check-config"})->text, IsEmpty());
}

}  // namespace
}  // namespace attention
