// `attend health --wait | --watch`, `attend top`, `attend models NAME` and `attend generate`: what
// follows a server, and what a model writes.
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/e2e/programs.h"
#include "tests/support/word_tokenizer.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using WatchTest = ProgramsTest;

TEST_F(WatchTest, WaitEndsWhenAllServe) {
  const Outcome outcome = Attend({"health", "--wait=5m", "--model=demo", "--model=small"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "SERVING\n");
}

TEST_F(WatchTest, WaitSaysWhatItFoundInstead) {
  const Outcome unknown = Attend({"health", "--wait=2s", "--model=absent"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("model/absent: expected SERVING within 2s, found "
                                     "SERVICE_UNKNOWN"));
  const Outcome nobody = RunAttend({"health", "--server=127.0.0.1:1", "--wait=2s"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("server: expected SERVING within 2s, found UNREACHABLE"));
}

TEST_F(WatchTest, WatchTellsEachStateWithItsTime) {
  Process watch({ATTEND_BINARY, "health", "--watch", "--server=" + server_.address(),
                 "--model=small", "--service=model/absent", "--json"});
  EXPECT_TRUE(
      watch.WaitForStdout(R"("service":"model/small","status":"SERVING","time":")", kPatience));
  EXPECT_TRUE(
      watch.WaitForStdout(R"("service":"model/absent","status":"SERVICE_UNKNOWN")", kPatience));
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.WaitForExit(kPatience), 128 + SIGINT);
}

TEST_F(WatchTest, WatchGoesOnWhenTheServerIsGone) {
  ServerProcess server;
  Process watch({ATTEND_BINARY, "health", "--watch", "--server=" + server.address()});
  EXPECT_TRUE(watch.WaitForStdout("server        SERVING\n", kPatience)) << watch.err();
  server.process().Signal(SIGKILL);
  EXPECT_TRUE(watch.WaitForStdout("UNREACHABLE: ", kPatience)) << watch.out();
  const ServerProcess again({}, server.address());
  EXPECT_TRUE(
      watch.WaitForStdout("server        SERVING\n", kPatience, watch.out().find("UNREACHABLE: ")))
      << watch.out();
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.WaitForExit(kPatience), 128 + SIGINT);
}

TEST_F(WatchTest, TopCountsWhatWasAnswered) {
  Process top({ATTEND_BINARY, "top", "--server=" + server_.address(), "--interval=200ms"});
  ASSERT_TRUE(top.WaitForStdout("so far     0 answered", kPatience)) << top.out();
  EXPECT_EQ(Attend({"run", "--random=1x5x64", "--model=small"}).exit_code, 0);
  EXPECT_TRUE(top.WaitForStdout("so far     1 answered", kPatience)) << top.out();
  top.Signal(SIGINT);
  EXPECT_EQ(top.WaitForExit(kPatience), 128 + SIGINT);
}

TEST_F(WatchTest, TopIsTextWhereThereIsNoTerminal) {
  const Outcome outcome = Attend({"top", "--count=2", "--interval=50ms"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("attend top  " + server_.address()), HasSubstr("\n\nattend top  "),
                    HasSubstr("requests  "), Not(HasSubstr("\x1b"))));
  const Outcome nobody = RunAttend({"top", "--server=127.0.0.1:1", "--count=1"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("UNAVAILABLE"));
}

TEST_F(WatchTest, OneModelIsShownInDetail) {
  const Outcome outcome = Attend({"models", "small"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("model     small, version 1, seeded\n"),
                                 HasSubstr("takes     hidden states of 64\n"), HasSubstr("4 / 2")));
  EXPECT_EQ(nlohmann::json::parse(Attend({"models", "small:1", "--json"}).out)["name"], "small");
  EXPECT_EQ(Attend({"models", "--names"}).out, "demo\nsmall\n");
  EXPECT_THAT(Attend({"models", "absent"}).err, HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Attend({"models", "small", "--states"}).exit_code, 2);
}

TEST_F(WatchTest, RunSpeaksTheOpenInferenceProtocol) {
  const Outcome outcome = Attend({"run", "--protocol=oip", "--random=1x5x64", "--model=small",
                                  "--verify", "--metadata=attend-priority=high", "-m",
                                  "attend-tenant=t", "-m", "x-request-id=r-1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("output    [1, 5, 64] FP32"), HasSubstr("timings   total "),
                    HasSubstr("agrees with the double-precision"), Not(HasSubstr("batch"))));
  EXPECT_EQ(Attend({"run", "--protocol=oip", "--random=1x5x64", "--stream"}).exit_code, 2);
}

class GenerateTest : public ::testing::Test {
 protected:
  GenerateTest() {
    std::filesystem::copy(std::string(kCheckpoints) + "gpt2", models_.path() + "/gpt2");
    models_.Write("gpt2/tokenizer.json", kWordTokenizer);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--models", models_.path()});
    EXPECT_EQ(RunAttend({"health", "--server", server_->address(), "--wait=5m"}).exit_code, 0);
  }

  Outcome Generate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"generate", "--server=" + server_->address()});
    return RunAttend(std::move(arguments));
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const Outcome outcome = Generate(std::move(arguments));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }

  const TempFolder models_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(GenerateTest, GoesOnWithTheLikeliestToken) {
  const nlohmann::json json = Json({"--tokens=3,4,5", "--max-tokens=4"});
  EXPECT_EQ(json["prompt_tokens"], 3);
  EXPECT_EQ(json["finish"], "length");
  ASSERT_EQ(json["ids"].size(), 4u);
  // Each is what one run over all before it says.
  std::string tokens = "3,4,5";
  for (const nlohmann::json& id : json["ids"]) {
    const Outcome run = RunAttend({"run", "--server", server_->address(), "--model=gpt2",
                                   "--tokens", tokens, "--logits", "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(nlohmann::json::parse(run.out)["next_tokens"][0]["top"][0]["id"], id);
    absl::StrAppend(&tokens, ",", id.get<int>());
  }
}

TEST_F(GenerateTest, WritesTheTextOfItsTokens) {
  const Outcome outcome = Generate({"the cat sat on", "--temperature=5", "--seed=3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(" tokens after 6, ended by "));
  const nlohmann::json json = Json({"the cat sat on", "--temperature=5", "--seed=3"});
  EXPECT_EQ(outcome.out, json["text"].get<std::string>() + "\n") << "the same seed";
  EXPECT_NE(Json({"the cat sat on", "--temperature=5", "--seed=4"})["ids"], json["ids"]);
}

TEST_F(GenerateTest, EndsWhereItIsTold) {
  const nlohmann::json all = Json({"--tokens=3,4,5", "--max-tokens=5"});
  const int third = all["ids"][2];
  const nlohmann::json stopped =
      Json({"--tokens=3,4,5", "--max-tokens=5", absl::StrCat("--stop-ids=", third)});
  EXPECT_EQ(stopped["finish"], "stop");
  EXPECT_LE(stopped["ids"].size(), 2u);
  const nlohmann::json full = Json({"--tokens=3,4,5", "--max-tokens=100000"});
  EXPECT_EQ(full["finish"], "full");
}

TEST_F(GenerateTest, SaysWhichModelsThereAre) {
  const Outcome outcome = Generate({"--tokens=1", "--model=demo"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--model demo: expected a causal model with logits"));
  const ServerProcess without;
  const Outcome none = RunAttend({"generate", "--tokens=1", "--server", without.address()});
  EXPECT_THAT(none.err, HasSubstr("--model: expected one causal model with logits on the server, "
                                  "found none"));
}

}  // namespace
}  // namespace attention
