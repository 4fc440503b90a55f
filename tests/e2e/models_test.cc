// `attend-server --models` and `attend models --states | --load | --unload | --reload | --verify`.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two sound checkpoints and one that is cut off, served in bf16.
class ModelsTest : public ::testing::Test {
 protected:
  static void Put(const std::string& name, const std::string& target) {
    fs::copy(fs::path(ATTEND_TEST_DATA) / "models" / name, target);
  }
  Outcome Models(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"models", "--server=" + server_->admin_address()});
    return RunAttend(std::move(arguments));
  }
  bool WaitUntilServing() const {
    return Eventually(
        [&] { return RunAttend({"health", "--server=" + server_->address()}).exit_code == 0; });
  }
  void SetUp() override {
    Put("gpt2", folder_.path() + "/gpt2");
    Put("bert", folder_.path() + "/bert");
    Put("llama", folder_.path() + "/broken");
    fs::resize_file(folder_.path() + "/broken/model.safetensors", 100);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--models", folder_.path(), "--weights-dtype=bf16", "--threads=2"});
    ASSERT_TRUE(WaitUntilServing());
  }

  const TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(ModelsTest, TellsWhatBecameOfEach) {
  const Outcome states = Models({"--states"});
  EXPECT_EQ(states.exit_code, 0) << states.err;
  EXPECT_THAT(states.out,
              AllOf(HasSubstr("gpt2"), HasSubstr("READY"), HasSubstr("bf16"), HasSubstr("FAILED"),
                    HasSubstr("\nbroken:1: " + folder_.path() + "/broken/")));
  const nlohmann::json json = nlohmann::json::parse(Models({"--states", "--json"}).out);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["name"], "bert");
  EXPECT_EQ(json[0]["phase"], "READY");
  EXPECT_EQ(json[0]["serving"], true);
  EXPECT_GT(json[0]["num_unused_tensors"], 0);
  EXPECT_EQ(json[1]["phase"], "FAILED");
}

TEST_F(ModelsTest, LogsHowEachWasLoaded) {
  EXPECT_TRUE(
      server_->process().WaitForStderr("INFO model gpt2 version 1: serving; gpt2, bf16 "
                                       "weights of",
                                       kPatience));
  EXPECT_TRUE(server_->process().WaitForStderr("MB/s)", kPatience));
  EXPECT_TRUE(server_->process().WaitForStderr("ERROR model broken version 1: ", kPatience));
}

TEST_F(ModelsTest, LoadsAndUnloads) {
  EXPECT_EQ(RunAttend({"run", "--server=" + server_->address(), "--model=gpt2", "--tokens=1,2,3"})
                .exit_code,
            0);
  EXPECT_THAT(Models({"--unload=gpt2"}).out, HasSubstr("UNLOAD"));
  EXPECT_THAT(Models({}).out, Not(HasSubstr("gpt2")));
  EXPECT_THAT(Models({"--load", "gpt2:1"}).out, HasSubstr("READY"));
  EXPECT_THAT(Models({}).out, HasSubstr("gpt2"));
  const Outcome broken = Models({"--load=broken"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("model.safetensors")));
  EXPECT_THAT(Models({"--unload=gpt2:7"}).err, HasSubstr("NOT_FOUND"));
}

TEST_F(ModelsTest, ReloadsTheFolder) {
  EXPECT_EQ(Models({"--reload"}).exit_code, 1) << "one of them is broken";
  fs::remove_all(folder_.path() + "/broken");
  Put("llama", folder_.path() + "/llama");
  const Outcome reloaded = Models({"--reload"});
  EXPECT_EQ(reloaded.exit_code, 0) << reloaded.err;
  EXPECT_THAT(reloaded.out, AllOf(HasSubstr("llama"), Not(HasSubstr("broken"))));
}

TEST_F(ModelsTest, VerifiesOneModelOrAll) {
  const Outcome all = Models({"--verify"});
  EXPECT_EQ(all.exit_code, 1) << "one of them is broken";
  EXPECT_THAT(all.err, HasSubstr("model broken:1 failed to load: "));
  EXPECT_THAT(all.out,
              AllOf(HasSubstr("bert version 1: bf16 weights beside fp32"), HasSubstr("layer 1"),
                    HasSubstr("gpt2 version 1"), HasSubstr("TOP-1 AGREEMENT")));
  const nlohmann::json json = nlohmann::json::parse(Models({"--verify=gpt2", "--json"}).out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["differences"].back()["of"], "logits");
  EXPECT_LT(json[0]["differences"].back()["relative_l2"], 0.03);
}

TEST_F(ModelsTest, VerifyingNothingIsAFailure) {
  fs::remove_all(folder_.path() + "/broken");
  Models({"--reload"});
  EXPECT_EQ(Models({"--verify"}).exit_code, 0);
  Models({"--unload=gpt2"});
  Models({"--unload=bert"});
  const Outcome none = Models({"--verify", "--max-relative-l2=0.5"});
  EXPECT_EQ(none.exit_code, 1) << none.out;
  EXPECT_THAT(none.err, HasSubstr("expected at least one model that is served, found none"));
}

TEST_F(ModelsTest, VerifiesAgainstALimit) {
  EXPECT_EQ(Models({"--verify=gpt2", "--max-relative-l2=0.03"}).exit_code, 0);
  const Outcome beyond = Models({"--verify=gpt2", "--max-relative-l2=1e-9"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.out, HasSubstr("TOP-1 AGREEMENT")) << "the table comes all the same";
  EXPECT_THAT(beyond.err, HasSubstr("gpt2 version 1: layer 0: expected a relative L2 of at most "
                                    "1e-09, found "));
  EXPECT_EQ(Models({"--verify=gpt2", "--max-relative-l2=0"}).exit_code, 2);
  EXPECT_EQ(Models({"--states", "--max-relative-l2=0.03"}).exit_code, 2);
}

TEST(ModelsUsageTest, RefusesAFolderThatIsNotThere) {
  Process server({ATTEND_SERVER_BINARY, "--listen=127.0.0.1:0", "--admin-listen=none",
                  "--models=/nonexistent/models"});
  EXPECT_EQ(server.WaitForExit(kPatience), 1);
  EXPECT_THAT(server.err(), HasSubstr("--models: /nonexistent/models: expected a folder, found: No "
                                      "such file or directory"));
}

TEST(ModelsUsageTest, WarnsOfAFolderThatIsAModelItself) {
  const std::string model = std::string(kCheckpoints) + "gpt2";
  ServerProcess server({"--models", model});
  EXPECT_TRUE(server.process().WaitForStderr(
      "WARNING --models: expected folders with models, found none in " + model +
          ", which is a model itself: name the folder above it",
      kPatience));
}

TEST(ModelsUsageTest, AModelOfTheServersOwnIsShownWithoutAnErrorInItsLog) {
  ServerProcess server;
  const Outcome shown = RunAttend({"models", "demo", "--server", server.address()});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0);
  EXPECT_THAT(server.process().err(), Not(HasSubstr("FAILED_PRECONDITION")));
}

TEST(ModelsUsageTest, ChecksForModelsBeforeTheServerStarts) {
  const TempFolder folder;
  Process check({ATTEND_SERVER_BINARY, "--check-config", "--models", folder.path(),
                 "--required-models=gpt2"});
  EXPECT_EQ(check.WaitForExit(kPatience), 0) << "models may come later";
  EXPECT_THAT(check.err(), HasSubstr("WARNING --models: expected folders with models, found none "
                                     "in " +
                                     folder.path() + "\n"));
  EXPECT_THAT(check.err(), HasSubstr("WARNING --required-models: expected a name of " +
                                     folder.path() + ", found gpt2, which does not exist yet\n"));
}

TEST(ModelsUsageTest, PollsTheFolder) {
  const TempFolder folder;
  ServerProcess server({"--models", folder.path(), "--models-poll=10ms"});
  EXPECT_TRUE(server.process().WaitForStderr(
      "WARNING --models: expected folders with models, found none in " + folder.path() + "\n",
      kPatience));
  fs::copy(fs::path(ATTEND_TEST_DATA) / "models/gpt2", folder.path() + "/gpt2");
  EXPECT_TRUE(server.process().WaitForStderr("model gpt2 version 1: serving", kPatience));
  fs::rename(folder.path() + "/gpt2", folder.path() + "/.gone");
  EXPECT_TRUE(server.process().WaitForStderr("model gpt2 version 1: unloaded", kPatience));
}

}  // namespace
}  // namespace attention
