// `attend run` with every kind of attention, checked in double precision by the program itself.
#include <nlohmann/json.hpp>

#include "client/cli/files/npy.h"
#include "client/cli/files/tensor_file.h"
#include "tests/e2e/programs.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using OptionsTest = ProgramsTest;
using Arguments = std::vector<std::string>;

TEST_F(OptionsTest, EveryKindOfAttentionAgreesWithTheReference) {
  Tensor seen(Dtype::kF32, {2, 1, 9, 9});
  for (int i = 0; i < seen.num_elements(); ++i) {
    seen.as<float>()[i] = i % 3 == 0 ? 0.0f : 1.0f;
  }
  const std::string mask = PathOf("mask.npy");
  ASSERT_THAT(WriteNpy(mask, seen), IsOk());
  const Arguments kinds[] = {
      {"--causal", "--window=3", "--prefix=2"},
      {"--window=2", "--window-right=2", "--global-tokens=0,4"},
      {"--window=2;5", "--prefix=;3", "--causal"},
      {"--softcap=5", "--alibi=standard", "--sinks=0.5,-1,2,0"},
      {"--rotary", "--query-norm=ones", "--key-norm=random:16", "--norm-epsilon=0.01"},
      {"--rotary-dim=8", "--rotary-interleaved", "--rotary-scaling=llama3:8,1,4,64",
       "--rotary-offset=5"},
      {"--bias=random:1x4x9x9", "--mask", mask, "--causal"},
      {"--similarity=gaussian", "--bandwidth=20", "--window=4"},
      {"--similarity=triangular", "--bandwidth=8"},
      {"--similarity=linear", "--causal"},
      {"--similarity=box", "--bandwidth=5"},
  };
  const Arguments inputs[] = {
      {"--random=2x9x64", "--model=small"},
      {"--query=random:2x9x4x16", "--key=random:2x9x2x16", "--value=random:2x9x2x8"},
  };
  for (const Arguments& input : inputs) {
    for (const Arguments& kind : kinds) {
      // A step has no tolerance: in bf16, keys at the edge of the box fall on either side.
      if (kind[0] == "--similarity=box" && input[1] == "--model=small") {
        continue;
      }
      for (const char* way : {"--weights", "--stream"}) {
        Arguments arguments = {"run", "--verify", "--top-k=3", "--log-sum-exp", way};
        arguments.insert(arguments.end(), input.begin(), input.end());
        arguments.insert(arguments.end(), kind.begin(), kind.end());
        const Outcome outcome = Attend(arguments);
        EXPECT_EQ(outcome.exit_code, 0)
            << ::testing::PrintToString(arguments) << outcome.out << outcome.err;
        EXPECT_THAT(outcome.out, AllOf(HasSubstr("agrees with the double-precision reference"),
                                       HasSubstr("log-sum-exp"), HasSubstr("top-weights")));
      }
    }
  }
}

TEST_F(OptionsTest, WritesAllTensorsToOneFile) {
  const std::string path = PathOf("answer.safetensors");
  const Outcome outcome = Attend({"run", "--random=2x5x512", "--lengths=5,3", "--weights",
                                  "--log-sum-exp", "--top-k=4", "--output", path, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["log_sum_exp"][1]["shape"], nlohmann::json::array({8, 3}));
  EXPECT_EQ(json["top_weights"][1]["shape"], nlohmann::json::array({8, 3, 3}));
  const std::pair<const char*, Shape> tensors[] = {{"output", {2, 5, 512}},
                                                   {"weights.1", {8, 3, 3}},
                                                   {"log_sum_exp.0", {8, 5}},
                                                   {"top_weights.0", {8, 5, 4}},
                                                   {"top_keys.1", {8, 3, 3}}};
  for (const auto& [name, shape] : tensors) {
    const auto tensor = LoadTensor(path + ":" + name, 0);
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->shape(), shape) << name;
  }
}

TEST_F(OptionsTest, WrongOptionsFailWithTheServersWords) {
  const Outcome negative = Attend({"run", "--random=2x5x512", "--window=-3"});
  EXPECT_EQ(negative.exit_code, 1);
  EXPECT_THAT(negative.err, HasSubstr("options.window: expected 0 or more, found -3"));
  const Outcome unknown = Attend({"run", "--random=2x5x512", "--similarity=cosine"});
  EXPECT_EQ(unknown.exit_code, 2);
}

}  // namespace
}  // namespace attention
