// `attend plot`: of a live server, of what `attend run` wrote, and of files from elsewhere.
#include <fstream>

#include "client/cli/files/npy.h"
#include "tests/e2e/loaded_models.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PlotTest : public LoadedModelsTest {
 protected:
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(PlotTest, DrawsAWholeModelInTheTerminal) {
  const Outcome outcome = Attend({"plot", "--model=gpt2", "--text=the cat sat"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Attention of gpt2\n"),
                                 HasSubstr("layer 0, mean of 3 heads   layer 1, mean of 3 heads\n"),
                                 HasSubstr("0 [CLS] ██········         ██········\n"),
                                 HasSubstr("hidden: causal")));
}

TEST_F(PlotTest, AFileIsAsGoodAsTheServer) {
  const std::vector<std::string> what = {"--model=gpt2", "--text=the cat", "--text=on"};
  std::vector<std::string> run = {"run", "--weights-layers=0,1", "--output",
                                  PathOf("a.safetensors")};
  run.insert(run.end(), what.begin(), what.end());
  ASSERT_EQ(Attend(run).exit_code, 0);
  for (const std::string format : {"html", "svg", "terminal"}) {
    std::vector<std::string> live = {"plot", "--format", format, "-o", "-", "--weights-layers=0,1"};
    live.insert(live.end(), what.begin(), what.end());
    const Outcome from_server = Attend(live);
    const Outcome from_file =
        RunAttend({"plot", PathOf("a.safetensors"), "--format", format, "-o", "-"});
    EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
    EXPECT_EQ(from_file.out, from_server.out);
    EXPECT_THAT(from_file.out, HasSubstr("Attention of gpt2"));
  }
  EXPECT_EQ(RunAttend({"plot", PathOf("a.safetensors"), "-o", "-"}).out,
            RunAttend({"plot", PathOf("a.safetensors")}).out);
}

TEST_F(PlotTest, KnowsWhatARequestHides) {
  const Outcome outcome = Attend({"plot", "--tokens=5,6,7,8;9", "--causal", "--window=2;1",
                                  "--weights-heads=3", "--color=none"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("layer 0, head 3\n"), HasSubstr("0 #5 ██······\n"),
                                 HasSubstr("hidden: causal, window 2\n")));
  const Outcome cross = Attend({"plot", "--random=1x2x512", "--memory=random:1x4x512",
                                "--weights-heads=0,7", "--format=svg", "-o", "-"});
  EXPECT_EQ(cross.exit_code, 0) << cross.err;
  EXPECT_THAT(cross.out, AllOf(HasSubstr(">memory 3<"), Not(HasSubstr("hidden from a row"))));
}

TEST_F(PlotTest, KnowsTheWindowsOfAModel) {
  // Every other layer of gemma2 has a window of 6 keys.
  const std::vector<std::string> what = {
      "plot", "--model=gemma2", "--random-tokens=1x8", "--weights-heads=0", "--format=svg", "-o",
      "-"};
  const auto hidden_by = [&](const std::string& more) {
    std::vector<std::string> arguments = what;
    arguments.push_back(more);
    const Outcome outcome = Attend(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const size_t at = outcome.out.find("hidden from a row: ");
    return outcome.out.substr(at, outcome.out.find('<', at) - at);
  };
  EXPECT_EQ(hidden_by("--weights-layers=0-1"), "hidden from a row: causal, window 6");
  EXPECT_EQ(hidden_by("--weights-layers=1"), "hidden from a row: causal");
  EXPECT_EQ(hidden_by("--layer=0"), "hidden from a row: causal, window 6");
  EXPECT_EQ(hidden_by("--layer=1"), "hidden from a row: causal");
}

TEST_F(PlotTest, ALayerAloneIsNotTheLayerOfTheStack) {
  for (const auto& [which, title] :
       {std::pair("--layer=1", "layer 1 alone, mean of 3 heads\n"),
        std::pair("--weights-layers=1", "layer 1, mean of 3 heads\n")}) {
    const Outcome outcome = Attend({"plot", "--model=gpt2", "--text=the cat", which});
    EXPECT_THAT(outcome.out, HasSubstr(title)) << outcome.err;
  }
}

TEST_F(PlotTest, EncodersHaveTheirMemorysRows) {
  const Outcome outcome = Attend({"plot", "--model=torch_transformer", "--memory=random:1x3x24",
                                  "--random=1x2x24", "--format=svg", "-o", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("layer 5, head"));
  const Outcome encoder =
      Attend({"plot", "--model=torch_transformer", "--memory=random:1x3x24", "--width=100"});
  EXPECT_EQ(encoder.exit_code, 0) << encoder.err;
  EXPECT_THAT(encoder.out, AllOf(HasSubstr("2 memory 2 "), Not(HasSubstr("layer 2"))));
}

TEST_F(PlotTest, WritesWhatTheNameOfTheFileSays) {
  for (const auto& [name, start] :
       {std::pair("a.html", "<!DOCTYPE html>"), std::pair("a.svg", "<svg")}) {
    const Outcome outcome = Attend({"plot", "--random-tokens=1x6", "-o", PathOf(name)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(Read(PathOf(name)), HasSubstr(start));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(PlotTest, SaysWhatItCannotDraw) {
  const std::string file = PathOf("other.npy");
  ASSERT_THAT(WriteNpy(file, Tensor(Dtype::kF32, {1, 1, 2})), IsOk());
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* text;
  };
  const Case cases[] = {
      {{"plot"}, 2, "expected a FILE, or something to send"},
      {{"plot", file, "--tokens=1"}, 2, "found both"},
      {{"plot", "--tokens=1", "-o", "x.gif"}, 2, "expected FILE.html, FILE.svg or FILE.txt"},
      {{"plot", file, "--causal"}, 2, "--causal needs something to send"},
      {{"plot", "--tokens=1", "--format=svg", "--width=80"}, 2, "--width needs --format terminal"},
      {{"plot", "--model=gpt2", "--tokens=1", "--layer=0", "--weights-layers=1"},
       2,
       "--weights-layers needs the whole model, without --layer"},
      {{"plot", file}, 1, "other.npy: expected FILE.safetensors with attention weights"},
      {{"plot", PathOf("none.safetensors")}, 1, "none.safetensors"},
      {{"plot", "--tokens=1;2", "--sequence=2"}, 1, "--sequence: expected less than 2, found 2"},
      {{"plot", "--tokens=1", "--weights-heads=9"}, 1, "heads of layer 0: expected some of 0,1,2"},
      {{"plot", "--model=gpt2", "--tokens=1", "--weights-layers=7"}, 1, "7"},
      {{"plot", "--model=gpt2", "--text", "", "--no-special-tokens"},
       1,
       "expected sequences with tokens, found none"},
      {{"plot", "--tokens=1", "-o", PathOf("absent/a.svg")}, 1, "a.svg: cannot be written"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = Attend(one.arguments);
    EXPECT_EQ(outcome.exit_code, one.exit_code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.text));
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace attention
