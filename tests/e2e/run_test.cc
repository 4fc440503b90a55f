// `attend run`: every kind of input, checked in double precision by the program itself; files;
// refusals.
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/cli/files/npy.h"
#include "client/cli/files/tensor_file.h"
#include "core/tensor/seeded.h"
#include "tests/e2e/programs.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using RunTest = ProgramsTest;
using Arguments = std::vector<std::string>;

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_F(RunTest, EveryKindOfInputAgreesWithTheReference) {
  const Arguments inputs[] = {
      {"--random", "2x5x512"},
      {"--random=2x5x512", "--lengths=3,5", "--causal", "--dtype=bf16"},
      {"--random=8x512", "--lengths", "3,5", "--dtype=fp16"},
      {"--random=2x5x512", "--memory=random:2x7x512", "--memory-lengths=7,4"},
      {"--tokens", "17,4,250;3,9"},
      {"--tokens=17,4,250;3,9", "--causal=true"},
      {"--random-tokens=3x40", "--scale=0.2"},
      {"--random=2x9x64", "--model=small"},
      {"--random=2x9x64", "--model=small", "--no-causal", "--dtype=bf16"},
      {"--query=random:2x5x4x16", "--key=random:2x7x2x16", "--value=random:2x7x2x8",
       "--kv-lengths=7,3"},
      {"--query=random:6x4x16", "--key=random:9x4x16", "--value=random:9x4x16", "--lengths=2,4",
       "--kv-lengths=4,5", "--query-offsets=-1,3", "--causal", "--dtype=bf16"},
  };
  for (const Arguments& input : inputs) {
    for (const char* way : {"--weights", "--stream"}) {
      Arguments arguments = {"run", "--verify", way};
      arguments.insert(arguments.end(), input.begin(), input.end());
      const Outcome outcome = Attend(arguments);
      EXPECT_EQ(outcome.exit_code, 0)
          << ::testing::PrintToString(input) << outcome.out << outcome.err;
      EXPECT_THAT(outcome.out, HasSubstr("agrees with the double-precision reference"));
      EXPECT_THAT(outcome.err, IsEmpty());
    }
  }
}

TEST_F(RunTest, SaysWhichWeightsCame) {
  const Outcome outcome =
      Attend({"run", "--tokens", "17,4,250;3,9", "--causal", "--weights", "--top-k=2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("weights   [8, 3, 3] FP32\nweights   [8, 2, 2] FP32\n"),
                                 HasSubstr("weights   [8, 3, 2] FP32, the largest of sequence 0\n"
                                           "  head 0  row 0  attends to key 0 100%\n"
                                           "  head 0  row 1  attends to key 1 83.4%, 0 16.6%\n")));
}

TEST_F(RunTest, TheLargestWeightsAreNumbersInJson) {
  const Outcome outcome =
      Attend({"run", "--tokens", "17,4,250", "--causal", "--top-k=2", "--log-sum-exp", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json answer = nlohmann::json::parse(outcome.out);
  const nlohmann::json& top = answer["top_weights"][0];
  EXPECT_EQ(top["keys"][7][0], nlohmann::json({0, -1}));
  EXPECT_EQ(top["keys"][0][1], nlohmann::json({1, 0}));
  EXPECT_EQ(top["values"][7][0], nlohmann::json({1, 0}));
  EXPECT_EQ(answer["log_sum_exp"][0]["values"].size(), 8u);
}

TEST_F(RunTest, AFileOfOneTensorTakesNoWeights) {
  const Outcome outcome =
      Attend({"run", "--tokens=1,2", "--weights", "--output", PathOf("answer.npy")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--output: expected FILE.safetensors"));
}

TEST_F(RunTest, ShowsRowBlocksAsTheyArrive) {
  const Outcome outcome = Attend({"run", "--random=1x600x512", "--causal", "--stream"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const size_t first = outcome.out.find("rows     0 to "), last = outcome.out.find("to   599");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(last, std::string::npos);
  EXPECT_LT(first, last);
}

TEST_F(RunTest, FilesGoInAndComeOutBitForBit) {
  const Tensor rows = SeededTensor(3, Dtype::kF32, {2, 5, 512});
  ASSERT_THAT(WriteNpy(PathOf("rows.npy"), rows), IsOk());
  const Arguments writes[] = {
      {"run", "--random=2x5x512", "--seed=3", "--output", PathOf("generated.safetensors"),
       "--weights"},
      {"run", "--input", PathOf("rows.npy"), "--output", PathOf("unary.npy")},
      {"run", "--input", PathOf("rows.npy"), "--output", PathOf("streamed.npy"), "--stream"},
  };
  for (const Arguments& arguments : writes) {
    const Outcome outcome = Attend(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("wrote "));
  }
  const auto generated = LoadTensor(PathOf("generated.safetensors:output"), 0);
  const auto unary = LoadTensor(PathOf("unary.npy"), 0),
             streamed = LoadTensor(PathOf("streamed.npy"), 0);
  ASSERT_THAT(generated, IsOk());
  ASSERT_THAT(unary, IsOk());
  ASSERT_THAT(streamed, IsOk());
  EXPECT_TRUE(SameBits(*generated, *unary));
  EXPECT_TRUE(SameBits(*unary, *streamed));
  const auto weights = LoadTensor(PathOf("generated.safetensors:weights.1"), 0);
  ASSERT_THAT(weights, IsOk());
  EXPECT_EQ(weights->shape(), (Shape{8, 5, 5}));
  // An answer is an input again.
  EXPECT_EQ(
      Attend({"run", "--input", PathOf("generated.safetensors:output"), "--verify"}).exit_code, 0);
}

TEST_F(RunTest, JsonHoldsEverythingButTensors) {
  const Outcome outcome =
      Attend({"run", "--random=1x300x512", "--causal", "--stream", "--verify", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["output"]["shape"], nlohmann::json::array({1, 300, 512}));
  EXPECT_EQ(json["verification"]["agreed"], true);
  EXPECT_GT(json["timings_ms"]["compute"], 0.0);
  EXPECT_EQ(json["batch"]["tokens"], 300);
  EXPECT_EQ(
      json["blocks"].back()["first_row"].get<int>() + json["blocks"].back()["rows"].get<int>(),
      300);
}

TEST_F(RunTest, AFileThatCannotBeWrittenIsRefusedBeforeTheRequest) {
  const Outcome outcome = Attend({"run", "--random=2x5x512", "--output", PathOf("absent/a.npy")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("absent/a.npy: cannot be written"));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(RunTest, WrongInputFailsWithTheServersWords) {
  const struct {
    Arguments arguments;
    Arguments words;
  } cases[] = {
      {{"run", "--random=2x5x511"}, {"INVALID_ARGUMENT", "512", "[2, 5, 511]"}},
      {{"run", "--random=2x5x512", "--model=absent"}, {"NOT_FOUND", "\"absent\""}},
      {{"run", "--tokens=5,1000"}, {"INVALID_ARGUMENT", "1000"}},
      {{"run", "--random=2x5x512", "--lengths=3"}, {"INVALID_ARGUMENT", "lengths"}},
      {{"run", "--query=random:1x2x3x4", "--key=random:1x2x2x4", "--value=random:1x2x2x4"},
       {"INVALID_ARGUMENT", "heads"}},
      {{"run", "--input=absent.npy"}, {"NOT_FOUND", "absent.npy: No such file or directory"}},
      {{"run", "--random-tokens=1x4", "--model=small"}, {"INVALID_ARGUMENT", "takes no token ids"}},
  };
  for (const auto& [arguments, words] : cases) {
    const Outcome outcome = Attend(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(arguments);
    for (const std::string& word : words) {
      EXPECT_THAT(outcome.err, HasSubstr(word));
    }
  }
}

}  // namespace
}  // namespace attention
