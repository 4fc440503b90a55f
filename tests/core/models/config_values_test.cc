// What single keys of a config.json mean, and what is refused: kinds of layers, windows, rotations.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ConfigValuesTest : public ::testing::Test {
 protected:
  static json ConfigOf(const std::string& checkpoint) {
    return json::parse(std::ifstream(TestCheckpointPath(checkpoint) + "/config.json"));
  }

  absl::StatusOr<LoadedModel> LoadAs(const std::string& checkpoint, const json& config) {
    std::filesystem::copy(TestCheckpointPath(checkpoint), folder_.path(),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
    folder_.Write("config.json", config.dump());
    return LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
  }

  absl::StatusOr<LoadedModel> LoadWith(const std::string& checkpoint, const json& changes) {
    json config = ConfigOf(checkpoint);
    config.update(changes);
    return LoadAs(checkpoint, config);
  }

  /// With Yarn's factor 4 over 16 positions, heads of 16 elements and theta 100.
  absl::StatusOr<LoadedModel> LoadYarn(const json& changes = json::object()) {
    json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
    yarn.update(changes);
    return LoadWith("models/llama-rope-yarn-mscale", {{"rope_scaling", yarn}});
  }

  const TempFolder folder_;
};

Rotary RotaryOf(const LoadedModel& loaded) { return *loaded.model->LayerOptions(0, {}, 1).rotary; }

std::vector<double> FrequenciesOf(const LoadedModel& loaded) {
  const Rotary rotary = RotaryOf(loaded);
  return {rotary.frequencies, rotary.frequencies + rotary.dim / 2};
}

TEST_F(ConfigValuesTest, ALayerThatSlidesNeedsAWindow) {
  EXPECT_THAT(LoadWith("models/gemma2-layer-types", {{"sliding_window", nullptr}}).status(),
              StatusIs(kInvalid, HasSubstr("layer_types: expected no sliding_attention without")));
}

TEST_F(ConfigValuesTest, AnUnknownKindOfLayerIsRefused) {
  EXPECT_THAT(LoadWith("models/qwen2-layer-types",
                       {{"layer_types", {"full_attention", "chunked_attention"}}})
                  .status(),
              StatusIs(kInvalid, HasSubstr("layer_types[1]: expected full_attention or "
                                           "sliding_attention, found chunked_attention")));
  EXPECT_THAT(LoadWith("models/qwen2-layer-types", {{"layer_types", {"full_attention"}}}).status(),
              StatusIs(kInvalid, HasSubstr("layer_types[1]")));
}

TEST_F(ConfigValuesTest, ANullNumberOfKeyHeadsIsThatOfTheQuery) {
  EXPECT_THAT(LoadWith("models/mistral", {{"num_key_value_heads", nullptr}}).status(),
              StatusIs(kInvalid, HasSubstr("k_proj")))
      << "which the tensors are not made for";
}

TEST_F(ConfigValuesTest, ANullWindowIsNone) {
  const auto loaded = LoadWith("models/gemma2", {{"sliding_window", nullptr}});
  ASSERT_THAT(loaded.status(), IsOk());
  for (int64_t layer = 0; layer < std::ssize(loaded->model->info().layers); ++layer) {
    EXPECT_EQ(loaded->model->LayerOptions(layer, {}, 1).window, 0) << layer;
  }
}

TEST_F(ConfigValuesTest, WhatAMissingKeyStandsForIsChecked) {
  json config = ConfigOf("models/roberta");
  config.erase("pad_token_id");
  config["max_position_embeddings"] = 2;
  EXPECT_THAT(LoadAs("models/roberta", config).status(),
              StatusIs(kInvalid, HasSubstr("none, which stands for")));
}

TEST_F(ConfigValuesTest, AnOddHeadIsRefusedByItsKey) {
  EXPECT_THAT(LoadWith("models/mistral-head-dim", {{"head_dim", 7}}).status(),
              StatusIs(kInvalid, HasSubstr("head_dim: expected an even number")));
}

TEST_F(ConfigValuesTest, OneScaleOfYarnAloneSaysNothing) {
  const auto loaded = LoadYarn({{"mscale", 1.5}});
  ASSERT_THAT(loaded.status(), IsOk());
  EXPECT_NEAR(RotaryOf(*loaded).magnitude, 0.1 * std::log(4.0) + 1, 1e-9);
}

TEST_F(ConfigValuesTest, YarnWithANullFactorTakesTheQuotientOfTheLengths) {
  const auto given = LoadYarn();
  ASSERT_THAT(given.status(), IsOk());
  const std::vector<double> expected = FrequenciesOf(*given);
  const auto null = LoadYarn({{"factor", nullptr}});  // 64 / 16 positions
  ASSERT_THAT(null.status(), IsOk());
  EXPECT_EQ(FrequenciesOf(*null), expected);
}

TEST_F(ConfigValuesTest, YarnIsNotTruncatedWhereTruncateIsNull) {
  std::vector<std::vector<double>> frequencies;
  for (const json& truncate : {json(nullptr), json(false), json(true)}) {
    const auto loaded = LoadYarn({{"beta_fast", 1.5}, {"truncate", truncate}});
    ASSERT_THAT(loaded.status(), IsOk());
    frequencies.push_back(FrequenciesOf(*loaded));
  }
  EXPECT_EQ(frequencies[0], frequencies[1]);
  EXPECT_NE(frequencies[0], frequencies[2]);
}

TEST_F(ConfigValuesTest, AFlagWhoseDefaultIsTrueIsNotNull) {
  for (const auto& [family, flag] :
       {std::pair("models/gpt2", "scale_attn_weights"), std::pair("models/gpt2", "is_causal"),
        std::pair("models/gpt2", "tie_word_embeddings"),
        std::pair("models/gpt_neox", "use_parallel_residual"),
        std::pair("models/gpt_neox", "attention_bias")}) {
    EXPECT_THAT(
        LoadWith(family, {{flag, nullptr}}).status(),
        StatusIs(kInvalid, HasSubstr(absl::StrCat(flag, ": expected true or false, found null"))));
  }
  EXPECT_THAT(LoadWith("models/gpt_neox", {{"tie_word_embeddings", nullptr}}).status(), IsOk());
}

TEST_F(ConfigValuesTest, TheRampOfYarnEndsWithTheHead) {
  const auto loaded = LoadYarn({{"beta_slow", 1e-6}, {"beta_fast", 4.0}});
  ASSERT_THAT(loaded.status(), IsOk());
  // From floor(16 ln(16 / (2 pi 4)) / (2 ln 100)) < 0, so 0, to the head's last element, 15.
  const double stretched = 7.0 / 15;
  EXPECT_NEAR(FrequenciesOf(*loaded)[7],
              std::pow(100.0, -14.0 / 16) * (stretched / 4 + 1 - stretched), 1e-9);
}

TEST_F(ConfigValuesTest, ARampOfYarnOfNoLengthIsAStep) {
  // At pair 16 ln(16 / (2 pi beta)) / (2 ln 100) = 1.6, and below pair 0, where the ramp of
  // transformers, from 0 down to there, leaves all pairs as they are.
  for (const double beta : {1.0, 1e5}) {
    const auto loaded =
        LoadYarn({{"beta_slow", beta}, {"beta_fast", beta}, {"truncate", beta > 1}});
    ASSERT_THAT(loaded.status(), IsOk());
    const std::vector<double> frequencies = FrequenciesOf(*loaded);
    ASSERT_EQ(frequencies.size(), 8u);
    for (int64_t i = 0; i < 8; ++i) {
      const bool is_kept = beta > 1 || i < 2;
      EXPECT_NEAR(frequencies[i], std::pow(100.0, -2.0 * i / 16) / (is_kept ? 1 : 4), 1e-9)
          << beta << ", pair " << i;
    }
  }
}

TEST_F(ConfigValuesTest, LongRopeThatIsNotLongerHasNoMagnitude) {
  json rope = ConfigOf("models/llama-rope-longrope")["rope_scaling"];
  rope["factor"] = 0.5;
  const auto loaded = LoadWith("models/llama-rope-longrope", {{"rope_scaling", rope}});
  ASSERT_THAT(loaded.status(), IsOk());
  EXPECT_EQ(RotaryOf(*loaded).magnitude, 1);
}

TEST_F(ConfigValuesTest, OfTwoNamesTheOneThatAllFamiliesShareCounts) {
  for (const char* const family : {"models/gpt2", "models/distilbert"}) {
    const auto loaded = LoadWith(family, {{"num_attention_heads", 2}, {"num_hidden_layers", 1}});
    ASSERT_THAT(loaded.status(), IsOk()) << family;
    EXPECT_EQ(loaded->model->layer(0).shape().num_heads, 2) << family;
    EXPECT_EQ(loaded->model->info().layers.size(), 1u) << family;
  }
}

TEST_F(ConfigValuesTest, TheFeedForwardOfSomeFamiliesHasOneNameOnly) {
  for (const char* const family : {"models/gpt2", "models/distilbert"}) {
    EXPECT_THAT(LoadWith(family, {{"intermediate_size", 77}}).status(), IsOk()) << family;
  }
}

TEST_F(ConfigValuesTest, HeadDimOfGptNeoXIsThatOfTheRotationAlone) {
  const auto loaded = LoadWith("models/gpt_neox", {{"head_dim", 8}, {"rotary_pct", 0.5}});
  ASSERT_THAT(loaded.status(), IsOk());
  EXPECT_EQ(loaded->model->layer(0).shape().head_dim, 16);
  EXPECT_EQ(RotaryOf(*loaded).dim, 4);
  EXPECT_THAT(LoadWith("models/gpt_neox", {{"head_dim", 17}}).status(),
              StatusIs(kInvalid, HasSubstr("head_dim: expected a whole number of 1 to 16")));
}

TEST_F(ConfigValuesTest, APartialRotationReplacesTheFamilysOwnKeyWhereItIsScaled) {
  const auto rotated = [this](const json& changes) {
    const auto loaded = LoadWith("models/gpt_neox", changes);
    EXPECT_THAT(loaded.status(), IsOk()) << changes;
    return loaded.ok() ? RotaryOf(*loaded).dim : 0;
  };
  const json scaled = {{"rope_type", "linear"}, {"factor", 2.0}};
  json part = scaled;
  part["partial_rotary_factor"] = 0.75;
  EXPECT_EQ(rotated({{"partial_rotary_factor", 0.5}}), 4) << "rotary_pct is 0.25";
  EXPECT_EQ(rotated({{"partial_rotary_factor", 0.5}, {"rope_scaling", scaled}}), 8);
  EXPECT_EQ(rotated({{"partial_rotary_factor", 0.5}, {"rope_scaling", part}}), 8);
  EXPECT_EQ(rotated({{"rope_scaling", part}}), 12);
  EXPECT_EQ(rotated({{"rope_scaling", scaled}}), 4);
}

TEST_F(ConfigValuesTest, RobertaAndItsRelativesHaveVocabulariesOfTheirOwn) {
  for (const auto& [type, size] : {std::pair("roberta", "50265"), std::pair("camembert", "30522"),
                                   std::pair("xlm-roberta", "30522")}) {
    json config = ConfigOf("models/xlm-roberta");
    config["model_type"] = type;
    config.erase("vocab_size");
    EXPECT_THAT(LoadAs("models/xlm-roberta", config).status(), StatusIs(kInvalid, HasSubstr(size)))
        << "which the tensors are not made for";
  }
}

TEST_F(ConfigValuesTest, APartialRotationIsRefusedWhereTheKindHasNone) {
  EXPECT_THAT(LoadYarn({{"partial_rotary_factor", 0.5}}).status(),
              StatusIs(kInvalid, HasSubstr("partial_rotary_factor")));
}

}  // namespace
}  // namespace attention
