// Checkpoints of every family against what PyTorch and transformers answer for them
// (tests/data/models, tests/data/golden).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr double kLayerTolerance = 2e-5;
constexpr double kModelTolerance = 2e-4;

class GoldenModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenModelTest() : model_(GetParam()) {}

  /// Layer `layer`'s attention over a case's rows.
  double LayerError(int64_t layer, const std::string& input, const std::string& output) {
    const std::string memory = absl::StrCat("layers.", layer, ".attention.memory");
    return LargestDifference(
        model_.case_tensor(output),
        model_.RunLayer(layer, {.input = input, .memory = model_.HasCase(memory) ? memory : ""}));
  }

  LoadedTestModel model_;
};

TEST_P(GoldenModelTest, EachLayerAttendsAsThere) {
  for (int64_t layer = 0; layer < std::ssize(model_.info().layers); ++layer) {
    const std::string name = absl::StrCat("layers.", layer, ".attention.");
    if (model_.HasCase(name + "input")) {
      EXPECT_LE(LayerError(layer, name + "input", name + "output"), kLayerTolerance) << layer;
    }
  }
}

TEST_P(GoldenModelTest, TheStackEndsAsThere) {
  if (model_.HasCase("input_ids")) {
    EXPECT_LE(LargestDifference(model_.case_tensor("last_hidden_state"),
                                model_.Forward({.ids = "input_ids"})),
              kModelTolerance);
  }
}

TEST_P(GoldenModelTest, RaggedSequencesEndAsEachAlone) {
  if (model_.HasCase("ragged.last_hidden_state")) {
    EXPECT_LE(
        LargestDifference(model_.case_tensor("ragged.last_hidden_state"),
                          model_.Forward({.ids = "ragged.input_ids", .lengths = "ragged.lengths"})),
        kModelTolerance);
  }
}

TEST_P(GoldenModelTest, TokenTypesAndPaddingAreThere) {
  if (model_.HasCase("token_types.last_hidden_state")) {
    EXPECT_LE(LargestDifference(
                  model_.case_tensor("token_types.last_hidden_state"),
                  model_.Forward({.ids = "input_ids", .type_ids = "token_types.token_type_ids"})),
              kModelTolerance);
  }
  if (model_.HasCase("padding.last_hidden_state")) {
    EXPECT_LE(LargestDifference(model_.case_tensor("padding.last_hidden_state"),
                                model_.Forward({.ids = "padding.input_ids"})),
              kModelTolerance);
  }
}

TEST_P(GoldenModelTest, LogitsAreThere) {
  EXPECT_LE(std::ssize(model_.info().layers), 64);
  if (model_.HasCase("logits")) {
    ASSERT_TRUE(model_.info().has_logits);
    EXPECT_LE(
        LargestDifference(model_.case_tensor("logits"),
                          model_.Forward({.ids = "input_ids", .wanted = ModelOutput::kLogits})),
        5 * kModelTolerance);
  }
}

TEST_P(GoldenModelTest, WeightsOfLayerZeroAreThere) {
  if (model_.HasCase("attentions.0")) {
    EXPECT_LE(
        LargestDifference(model_.case_tensor("attentions.0"), model_.Weights("input_ids", 0, {})),
        kLayerTolerance);
  }
}

TEST_P(GoldenModelTest, ModulesAnswerAsThere) {
  struct ModuleAnswer {
    const char* name;
    bool causal;
    const char* memory;
  };
  const bool has_values = model_.HasCase("memory_values");
  for (const ModuleAnswer& answer :
       {ModuleAnswer{"self", false, ""}, ModuleAnswer{"causal", true, ""},
        ModuleAnswer{"cross", false, "memory"}}) {
    if (model_.HasCase("x") && model_.HasCase(answer.name)) {
      const auto output = model_.RunLayer(0, {.input = "x",
                                              .memory = answer.memory,
                                              .memory_values = has_values ? "memory_values" : "",
                                              .causal = answer.causal});
      EXPECT_LE(LargestDifference(model_.case_tensor(answer.name), output), kLayerTolerance)
          << answer.name;
    }
  }
}

TEST_P(GoldenModelTest, EncoderAndDecoderEndAsThere) {
  if (model_.HasCase("encoder.output")) {
    EXPECT_LE(
        LargestDifference(model_.case_tensor("encoder.output"), model_.Forward({.rows = "source"})),
        kModelTolerance);
    EXPECT_LE(LargestDifference(model_.case_tensor("output"),
                                model_.Forward({.rows = "target", .memory = "source"})),
              kModelTolerance);
  }
}

TEST_P(GoldenModelTest, ThreadsAndBatchMatesChangeNoBit) {
  if (model_.HasCase("ragged.input_ids")) {
    const TestForward ragged{.ids = "ragged.input_ids", .lengths = "ragged.lengths"};
    const std::vector<float> together = model_.Forward(ragged);
    EXPECT_EQ(together, model_.ForwardOneByOne(ragged));
    EXPECT_EQ(together, model_.Forward(ragged, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, GoldenModelTest, ::testing::ValuesIn(TestCheckpoints()), [](const auto& test) {
      std::string name = test.param;
      std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

}  // namespace
}  // namespace attention
