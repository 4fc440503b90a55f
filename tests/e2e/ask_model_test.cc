// `attend run` and `attend bench` on loaded models: texts, layers, logits, and what cannot be
// asked.
#include <nlohmann/json.hpp>

#include "client/cli/files/tensor_file.h"
#include "tests/e2e/loaded_models.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using AskModelTest = LoadedModelsTest;

TEST_F(AskModelTest, ShowsTheTokensOfATextBesideTheirWeights) {
  const Outcome outcome =
      Attend({"run", "--model=gpt2", "--text", "The cat sat on the mat", "--no-special-tokens",
              "--logits", "--weights-layers=0,1", "--weights-heads=2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("request   gpt2, 1 text, last logits, weights of layers 0,1"),
                    HasSubstr("output    [1, 47] FP32"), HasSubstr("next      after sequence 0:"),
                    HasSubstr("weights   [1, 6, 6] FP32 of layer 1 in sequence 0\n")));
}

TEST_F(AskModelTest, OneLayerAttendsOnItsOwn) {
  const Outcome outcome = Attend({"run", "--model=gpt2", "--text=the cat", "--no-special-tokens",
                                  "--layer=1", "--weights", "--stream"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("output    [2, 36] FP32"), HasSubstr("weights   [3, 2, 2] FP32\n")));
}

TEST_F(AskModelTest, WritesAndReportsWhatWasAsked) {
  const std::string path = PathOf("answer.safetensors");
  const Outcome outcome = Attend({"run", "--model=gpt2", "--text=the cat", "--text=on", "--json",
                                  "--logits=all", "--weights-layers=1", "--output", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["tokens"][1]["tokens"], nlohmann::json({"[CLS]", "on", "[SEP]"}));
  EXPECT_EQ(json["next_tokens"][1]["top"].size(), 5u);
  EXPECT_EQ(json["layer_weights"][1]["shape"], nlohmann::json({3, 3, 3}));
  const auto weights = LoadTensor(path + ":layer_weights.1.0", 0);
  ASSERT_THAT(weights, IsOk());
  EXPECT_THAT(weights->shape(), ElementsAre(3, 4, 4));
}

TEST_F(AskModelTest, AnEncoderNeedsItsMemoryAlone) {
  const Outcome outcome =
      Attend({"run", "--model=torch_transformer", "--memory=random:2x5x24", "--pool=mean"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("output    [2, 24] FP32"));
}

TEST_F(AskModelTest, LoadsTakeTextsToo) {
  const Outcome outcome = Attend({"bench", "--model=gpt2", "--text=the cat", "--stream", "-n", "20",
                                  "--warmup=0s", "--json=-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["succeeded"], true);
}

TEST_F(AskModelTest, SaysWhatCannotBeAsked) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"run", "--model=gpt2", "--tokens=1", "--verify"}, "cannot be verified"},
      {{"run", "--model=gpt2", "--tokens=1", "--layer=7"}, "expected 0 to 1 of the 2 layers"},
      {{"run", "--model=gpt2", "--tokens=1", "--window=2"},
       "options.window: expected none without layer"},
      {{"run", "--model=gpt2", "--tokens=1", "--model-version=2"}, "expected 1 of model"},
  };
  for (const auto& [arguments, text] : cases) {
    const Outcome outcome = Attend(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
}

}  // namespace
}  // namespace attention
