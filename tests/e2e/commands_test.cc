// `attend models | health | bench`, usage errors, and other ways to reach a server.
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/e2e/programs.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using CommandsTest = ProgramsTest;

TEST_F(CommandsTest, ModelsListsWhatIsServed) {
  const Outcome table = Attend({"models"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("NAME"), HasSubstr("demo"), HasSubstr("small")));
  const nlohmann::json json = nlohmann::json::parse(Attend({"models", "--json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["name"], "demo");
  EXPECT_EQ(json[0]["d_model"], 512);
  EXPECT_GT(json[0]["limits"]["max_message_bytes"], 0);
  EXPECT_EQ(json[1]["num_kv_heads"], 2);
  EXPECT_EQ(json[1]["dtype"], "BF16");
  EXPECT_EQ(json[1]["weights_dtype"], "bf16");
  EXPECT_EQ(json[1]["model_type"], "seeded");
  EXPECT_EQ(json[1]["version"], 1);
  EXPECT_EQ(json[1]["layers"].size(), 1u);
}

TEST_F(CommandsTest, ModelsWarnsOfProductsThatTheProcessorLacks) {
  setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  const ServerProcess server(
      {"--random-model", "small:d_model=64,num_heads=4,num_kv_heads=2,dtype=bf16,causal=true"});
  unsetenv("ONEDNN_MAX_CPU_ISA");
  const auto models = [&server](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"models", "--server=" + server.address()});
    return RunAttend(std::move(arguments)).out;
  };
  const std::string warning =
      "the server's processor has no fast instructions for products of bf16;";
  EXPECT_THAT(models({}),
              AllOf(HasSubstr("warning: small: " + warning), Not(HasSubstr("warning: demo"))));
  EXPECT_THAT(models({"small"}), HasSubstr("warning   " + warning));
  EXPECT_THAT(models({"demo"}), Not(HasSubstr("warning")));
  const nlohmann::json json = nlohmann::json::parse(models({"--json"}));
  EXPECT_EQ(json[0]["emulated_dtypes"], nlohmann::json::array());
  EXPECT_EQ(json[1]["emulated_dtypes"], nlohmann::json::array({"bf16"}));
}

TEST_F(CommandsTest, HealthExitsWithTheAnswer) {
  EXPECT_EQ(Attend({"health"}).exit_code, 0);
  EXPECT_EQ(Attend({"health", "--service", "model/demo"}).exit_code, 0);
  const Outcome unknown = Attend({"health", "--service", "model/absent"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("NOT_FOUND"), HasSubstr("model/absent")));
}

TEST_F(CommandsTest, WhatGrpcHasToSayIsLoggedAtTheLevelDebug) {
  for (const bool is_debug : {false, true}) {
    ServerProcess server({is_debug ? "--log-level=debug" : "--log-level=info"});
    EXPECT_EQ(RunAttend({"health", "--server=" + server.address()}).exit_code, 0);
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().WaitForExit(kPatience), 0);
    EXPECT_EQ(absl::StrContains(server.process().err(), "grpc: "), is_debug)
        << server.process().err();
  }
}

TEST_F(CommandsTest, LogLevelAsksAndChangesWhatIsLogged) {
  const auto log_level = [this](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"log-level", "--server=" + server_.admin_address()});
    return RunAttend(std::move(arguments));
  };
  EXPECT_EQ(log_level({}).out, "level info, requests failed\n");
  EXPECT_EQ(log_level({"warning", "--requests=all"}).out, "level warning, requests all\n");
  EXPECT_EQ(log_level({}).out, "level warning, requests all\n");
  EXPECT_EQ(log_level({"info", "--requests=failed"}).exit_code, 0);
  EXPECT_EQ(log_level({"loud"}).exit_code, 2);
  EXPECT_THAT(Attend({"log-level"}).err, HasSubstr("PERMISSION_DENIED"));
}

TEST_F(CommandsTest, BenchReportsWhatItMeasured) {
  const std::string path = PathOf("bench.json");
  const Outcome outcome =
      Attend({"bench", "--shape=1x16x512", "-c", "3", "-n", "30", "--warmup=0s", "--json", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("requests/s"), HasSubstr("p99.9"), HasSubstr("bit-identical")));
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(path));
  EXPECT_EQ(json["succeeded"], true);
  EXPECT_GT(json["answers"], 0);
  EXPECT_GT(json["requests_per_s"], 0.0);
  EXPECT_EQ(json["options"]["concurrency"], 3);
  EXPECT_GT(json["latency_ms"]["mean"], 0.0);
  EXPECT_LE(json["latency_ms"]["mean"], json["latency_ms"]["max"]);
  EXPECT_THAT(json["errors"], IsEmpty());
  EXPECT_EQ(json["verification"]["agreed"], true);
  EXPECT_FALSE(json["machine"]["cpu"].is_null());
}

TEST_F(CommandsTest, BenchStreamsTokensAndWritesJsonToStdout) {
  const Outcome outcome = Attend({"bench", "--random-tokens=2x30", "--stream", "--causal", "-n",
                                  "30", "--warmup=0s", "--connections=2", "--json=-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["options"]["stream"], true);
  EXPECT_LE(json["first_block_ms"]["mean"], json["latency_ms"]["mean"]);
}

TEST_F(CommandsTest, BenchSendsAtARateInManyLengths) {
  Outcome outcome;
  int64_t ms = 200;
  EXPECT_TRUE(Eventually([&] {
    ms *= 2;  // until there are answers in that time
    outcome = Attend({"bench", "--rate=100", "--arrivals=poisson", "--lengths=uniform:1..16",
                      absl::StrCat("--duration=", ms, "ms"), "--warmup=50ms", "--json=-"});
    return outcome.exit_code == 0;
  }));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["options"]["lengths"], "uniform:1..16");
  EXPECT_EQ(json["options"]["rate_per_s"], 100.0);
  EXPECT_GT(json["offered_per_s"], 0.0);
  EXPECT_EQ(json["offered_per_s"], json["sent_per_s"]);
  EXPECT_GT(json["tokens_per_s"], json["requests_per_s"]);
  EXPECT_LE(json["service_ms"]["mean"], json["latency_ms"]["mean"]);
  EXPECT_GE(json["lag_ms"]["max"], json["lag_ms"]["p50"]);
  EXPECT_EQ(json["verification"]["agreed"], true);
}

TEST_F(CommandsTest, BenchDecodes) {
  const Outcome outcome = Attend({"bench", "--decode", "-c", "3", "--prefill=7", "--steps=5", "-n",
                                  "60", "--warmup=0s", "--model=small"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("small, 5 steps of 1 after prompts of 7"), HasSubstr("first token"),
                    HasSubstr("agrees with the reference"), HasSubstr("samples bit-identical")));
}

TEST_F(CommandsTest, BenchFailsWhenItsFirstRequestIsRefused) {
  const Outcome outcome = Attend({"bench", "--shape=1x16x511", "-z", "10s"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("INVALID_ARGUMENT"));
}

TEST(UnixSocketTest, ServesAsTcpDoes) {
  const TempFolder folder;
  const ServerProcess server({}, absl::StrCat("unix:", folder.path(), "/attend.sock"));
  EXPECT_EQ(server.address(), absl::StrCat("unix:", folder.path(), "/attend.sock"));
  const Outcome outcome =
      RunAttend({"run", "--server", server.address(), "--random=1x5x512", "--verify"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(MessageLimitTest, NamesTheFlagThatRaisesIt) {
  const ServerProcess server({"--max-message-bytes=100000"});
  const Outcome outcome = RunAttend({"run", "--server", server.address(), "--random=1x100x512"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("--max-message-bytes")));
}

TEST(WrongPortTest, TheErrorSaysWhatThePortSpeaks) {
  const auto run_at = [](Process& server, const std::string& words, const std::string& flag) {
    EXPECT_TRUE(server.WaitForStdout(words, kPatience)) << server.err();
    const std::string rest = server.out().substr(server.out().find(words) + words.size());
    return RunAttend({"run", "--server=" + rest.substr(0, rest.find('\n')), flag, "--no-retries",
                      "--random=1x5x512"})
        .err;
  };
  Process server({ATTEND_SERVER_BINARY, "--listen=127.0.0.1:0", "--admin-listen=none",
                  "--metrics-listen=127.0.0.1:0"});
  EXPECT_THAT(run_at(server, "attend-server metrics on ", "--causal"),
              HasSubstr("(the server speaks no HTTP/2: is this the port of /metrics, or a proxy "
                        "that needs --tls?)"));
  EXPECT_THAT(run_at(server, "attend-server listening on ", "--tls"),
              HasSubstr("(the server speaks no TLS: connect without --tls)"));
  Process secure({ATTEND_SERVER_BINARY, "--listen=127.0.0.1:0", "--admin-listen=none",
                  "--metrics-listen=none", "--tls-certificate=" ATTEND_TEST_DATA "/tls/server.pem",
                  "--tls-key=" ATTEND_TEST_DATA "/tls/server.key"});
  EXPECT_THAT(run_at(secure, "attend-server listening on ", "--causal"),
              HasSubstr("(the server closed the new connection: does it need --tls, or "
                        "--certificate?)"));
}

TEST(UsageTest, ErrorsExitWithTwoAndSayWhy) {
  const struct {
    std::vector<std::string> arguments;
    const char* word;
  } cases[] = {
      {{}, "attend COMMAND --help"},
      {{"dance"}, "dance"},
      {{"run"}, "--random 2x5x512"},
      {{"run", "--random=2xx5"}, "2xx5"},
      {{"run", "--random=2x5x512", "--tokens=1"}, "only one of"},
      {{"run", "--random=2x5x512", "--output=out.txt"}, "out.txt"},
      {{"run", "--random=2x5x512", "--timeout=0"}, "more than 0"},
      {{"run", "--random=2x5x512", "--stream", "--protocol=oip"}, "--protocol native"},
      {{"bench", "--concurrency=0"}, "--concurrency"},
      {{"bench", "--duration=soon"}, "soon"},
      {{"bench", "--rate=10", "-c", "2"}, "--rate"},
      {{"bench", "--lengths=uniform:9..8"}, "found 9 to 8"},
      {{"models", "--colour"}, "--colour"},
      {{"models", "--load=a:0"}, "expected NAME or NAME:VERSION"},
      {{"models", "--verify=a:"}, "expected NAME or NAME:VERSION"},
      {{"models", "--states", "--reload"}, "only one of"},
      {{"models", "--names", "--json"}, "--names excludes --json"},
      {{"plot", "a.safetensors", "--layer=1"}, "--layer needs something to send"},
      {{"models", "--server=127.0.0.1"}, "expected host:port"},
      {{"health", "--wait=1s", "--server=127.0.0.1"}, "expected host:port"},
      {{"health", "--wait=0"}, "expected more than 0 seconds, found \"0\""},
      {{"run", "--random=2x5x512", "-m", "a b=c"}, "metadata: expected a name"},
      {{"run", "--text=caf\xe9"}, "--text: expected UTF-8, found byte 0xe9 at offset 3"},
      {{"generate", "caf\xe9"}, "prompt: expected UTF-8, found byte 0xe9 at offset 3"},
      {{"top", "--interval=1ms"}, "expected at least 50ms, found \"1ms\""},
  };
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = RunAttend(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(UsageTest, HelpTeachesOnStdout) {
  for (const char* command : {"run", "bench", "models", "health"}) {
    const Outcome outcome = RunAttend({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("--server"));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
  EXPECT_THAT(RunAttend({"run", "--help"}).out, HasSubstr("attend run --random 2x5x512 --verify"));
  EXPECT_THAT(RunAttend({"--version"}).out,
              ::testing::MatchesRegex("attend [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const std::string help = RunAttend({"--help"}).out;
  EXPECT_THAT(help, HasSubstr("attend [OPTIONS] [COMMAND]\n"));
  EXPECT_THAT(help, HasSubstr("\n\nCommands:\n  run  "));
  EXPECT_EQ(RunAttend({"help"}).out, help);
  EXPECT_EQ(RunAttend({"help", "run"}).out, RunAttend({"run", "--help"}).out);
}

TEST(UsageTest, NoLineOfAnyHelpIsOver100Columns) {
  std::vector<std::vector<std::string>> all = {{"--help"}, {"bench", "--help-expert"}};
  for (const char* command : {"run", "generate", "models", "health", "top", "bench", "plot",
                              "report", "log-level", "completion"}) {
    all.push_back({command, "--help"});
  }
  for (const std::vector<std::string>& arguments : all) {
    const Outcome outcome = RunAttend(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
      EXPECT_LE(line.size(), 100u) << arguments.front() << ": " << line;
    }
  }
}

TEST(UsageTest, WhatFewNeedIsForHelpExpert) {
  EXPECT_THAT(RunAttend({"bench", "--help"}).out,
              AllOf(HasSubstr("--help-expert"), HasSubstr("--rate"), Not(HasSubstr("--softcap"))));
  EXPECT_THAT(RunAttend({"bench", "--help-expert"}).out,
              AllOf(HasSubstr("--rate"), HasSubstr("--softcap"), HasSubstr("--max-trials")));
}

}  // namespace
}  // namespace attention
