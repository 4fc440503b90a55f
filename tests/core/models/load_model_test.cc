#include "core/models/load_model.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/safetensors.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Writes a safetensors file of F32 as F64, each value changed by less than F32 can tell.
std::string AsDoubles(const std::string& floats) {
  uint64_t header_bytes = 0;
  floats.copy(reinterpret_cast<char*>(&header_bytes), 8);
  json header = json::parse(floats.substr(8, header_bytes));
  for (auto& [name, tensor] : header.items()) {
    if (tensor.contains("dtype")) {
      tensor["dtype"] = "F64";
      for (json& offset : tensor["data_offsets"]) {
        offset = 2 * offset.get<int64_t>();
      }
    }
  }
  std::string text = header.dump();
  const uint64_t text_bytes = text.size();
  text.insert(0, reinterpret_cast<const char*>(&text_bytes), 8);
  for (size_t i = 8 + header_bytes; i < floats.size(); i += sizeof(float)) {
    float value = 0;
    floats.copy(reinterpret_cast<char*>(&value), sizeof(value), i);
    const double stored = value * (1 + 1e-12);
    text.append(reinterpret_cast<const char*>(&stored), sizeof(stored));
  }
  return text;
}

/// A copy of a golden checkpoint, to be spoiled.
class LoadModelTest : public ::testing::Test {
 protected:
  void Copy(const std::string& checkpoint) {
    std::filesystem::copy(TestCheckpointPath(checkpoint), folder_.path(),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  }

  std::filesystem::path PathOf(const std::string& file) const {
    return std::filesystem::path(folder_.path()) / file;
  }

  void ChangeConfig(const std::function<void(json&)>& change) {
    json config = json::parse(ReadFile(PathOf("config.json")));
    change(config);
    WriteFile(PathOf("config.json"), config.dump());
  }

  /// Writes the checkpoint's tensors anew.
  void ChangeTensors(const std::function<void(NamedTensors&)>& change) {
    NamedTensors tensors = *ReadSafetensors(PathOf("model.safetensors"));
    change(tensors);
    NamedValues written;
    for (const auto& [name, tensor] : tensors) {
      written.emplace(name, &tensor);
    }
    ASSERT_THAT(WriteSafetensors(PathOf("model.safetensors"), written), IsOk());
  }

  absl::Status Load() {
    return LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32).status();
  }

  TempFolder folder_;
};

TEST_F(LoadModelTest, NamesTheMissingFile) {
  EXPECT_THAT(Load(), StatusIs(kNotFound, HasSubstr("config.json")));
  WriteFile(PathOf("config.json"), R"({"model_type": "gpt2"})");
  EXPECT_THAT(Load(),
              StatusIs(kNotFound, HasSubstr("expected model.safetensors or "
                                            "model.safetensors.index.json, found neither")));
}

TEST_F(LoadModelTest, NamesTheFamiliesThereAre) {
  WriteFile(PathOf("config.json"), R"({"model_type": "gpt5"})");
  EXPECT_THAT(Load(),
              StatusIs(kInvalid, AllOf(HasSubstr("config.json: model_type: expected one of bert, "),
                                       HasSubstr("found \"gpt5\""))));
  WriteFile(PathOf("config.json"), "[1, 2]");
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("config.json: expected a JSON object")));
}

TEST_F(LoadModelTest, NamesTheKeyOfTheConfigThatIsWrong) {
  Copy("models/llama");
  struct Spoiled {
    const char* key;
    json value;
    const char* message;
  };
  const Spoiled all[] = {
      {"hidden_size", "48", "hidden_size: expected a whole number of 1 to 16777216, found \"48\""},
      {"num_hidden_layers", -1, "num_hidden_layers: expected a whole number"},
      {"num_hidden_layers", 1e30, "num_hidden_layers: expected a whole number"},
      {"hidden_act", "tanhexp", "hidden_act: expected one of relu, gelu"},
      {"attention_bias", 1, "attention_bias: expected true or false, found 1"},
      {"num_key_value_heads", 3, "num_key_value_heads: expected a divisor of 4, found 3"},
      {"rope_scaling", {{"rope_type", "spiral"}}, "rope_type: expected one of default, linear"},
      {"rope_scaling",
       {{"rope_type", "linear"}, {"factor", 0}},
       "config.json: rope_scaling.factor: expected a number of 1e-06 to 1e+06, found 0"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 5}, {"high_freq_factor", 4}},
       "high_freq_factor: expected more than"},
      {"rope_scaling", {{"type", "linear"}}, "rope_scaling.factor: expected a number of 1e-06"},
      {"rope_scaling",
       {{"type", "linear"}, {"factor", nullptr}},
       "rope_scaling.factor: expected a number of 1e-06 to 1e+06, found null"},
      {"rope_scaling", {{"type", "dynamic"}}, "rope_scaling.factor: expected a number of 1e-06"},
      {"rope_scaling", {{"type", "yarn"}}, "rope_scaling.factor: expected a number of 1e-06"},
      {"rope_scaling", {{"type", "llama3"}}, "rope_scaling.factor: expected a number of 1e-06"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8}},
       "rope_scaling.low_freq_factor: expected a number of 1e-06"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}},
       "rope_scaling.high_freq_factor: expected a number of 1e-06"},
      {"is_causal", nullptr, "is_causal: expected true or false, found null"},
      {"quantization_config",
       {{"quant_method", "awq"}, {"bits", 4}},
       "quantization_config.quant_method: expected no quantization_config, since weights must be "
       "stored as F32, BF16, F16 or F64 (--weights-dtype rounds them), found \"awq\""},
      {"quantization_config", {{"load_in_8bit", true}}, "found one without a method"},
      {"quantization_config", "fp8", "quantization_config: expected an object, found \"fp8\""},
  };
  const std::string good = ReadFile(PathOf("config.json"));
  for (const Spoiled& spoiled : all) {
    WriteFile(PathOf("config.json"), good);
    ChangeConfig([&](json& config) { config[spoiled.key] = spoiled.value; });
    EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr(spoiled.message)));
  }
}

TEST_F(LoadModelTest, ANullQuantizationIsNone) {
  Copy("models/llama");
  ChangeConfig([](json& config) { config["quantization_config"] = nullptr; });
  EXPECT_THAT(Load(), IsOk());
}

TEST_F(LoadModelTest, AnOddRotatedPartHasNoYarn) {
  Copy("models/gpt_neox-odd-rotary");
  ChangeConfig(
      [](json& config) { config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}}; });
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("rope_scaling.rope_type: expected another kind "
                                                   "where an odd number of elements is rotated, "
                                                   "found \"yarn\" with 3")));
}

TEST_F(LoadModelTest, ARopeScalingWithoutAKindIsTheDefaultKind) {
  Copy("models/llama");
  ChangeConfig([](json& config) {
    config["rope_scaling"] = {{"factor", 2.0}};
    config["rope_theta"] = 300.0;
    config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 77.0}};
  });
  const auto base_and_frequencies = [&] {
    const auto loaded = LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
    const AttentionOptions options = loaded->model->LayerOptions(0, {}, 1);
    return std::pair(options.rotary->base, options.rotary->frequencies != nullptr);
  };
  EXPECT_EQ(base_and_frequencies(), std::pair(300.0, false));
  ChangeConfig([](json& config) { config["rope_scaling"] = json::object(); });
  EXPECT_EQ(base_and_frequencies(), std::pair(77.0, true));
}

TEST_F(LoadModelTest, WholeNumbersMayHaveAPoint) {
  Copy("models/llama-rope-llama3");
  ChangeConfig([](json& config) {
    config["rope_scaling"]["original_max_position_embeddings"] = 24.0;
    config["num_hidden_layers"] = 1.0;
  });
  EXPECT_THAT(Load(), IsOk());
  ChangeConfig([](json& config) { config["num_hidden_layers"] = 1.5; });
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("num_hidden_layers: expected a whole number")));
}

TEST_F(LoadModelTest, ActivationsHaveSeveralNames) {
  Copy("models/bert");
  for (const char* name : {"gelu_accurate", "gelu_python_tanh"}) {
    ChangeConfig([&](json& config) { config["hidden_act"] = name; });
    EXPECT_THAT(Load(), IsOk()) << name;
  }
}

TEST_F(LoadModelTest, FamiliesHaveSeveralNames) {
  const auto load_as = [&](const std::string& checkpoint, const std::string& model_type) {
    Copy(checkpoint);
    ChangeConfig([&](json& config) { config["model_type"] = model_type; });
    return LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
  };
  const auto camembert = load_as("models/xlm-roberta", "camembert");
  ASSERT_THAT(camembert, IsOk());
  EXPECT_EQ(camembert->model->info().model_type, "camembert");
  EXPECT_EQ(camembert->model->info().max_positions, 22) << "24 without those up to the padding's";
  const auto ministral = load_as("models/mistral-layer-types", "ministral");
  ASSERT_THAT(ministral, IsOk());
  EXPECT_EQ(ministral->model->LayerOptions(0, {}, 1).window, 0);
  EXPECT_EQ(ministral->model->LayerOptions(1, {}, 1).window, 5);
}

TEST_F(LoadModelTest, DoublesAreRoundedToFloats) {
  Copy("models/llama");
  WriteFile(PathOf("model.safetensors"), AsDoubles(ReadFile(PathOf("model.safetensors"))));
  const auto loaded = LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
  ASSERT_THAT(loaded, IsOk());
  const LoadedTestModel floats("models/llama");
  const std::vector<int32_t> ids = {1, 46};
  const auto embedded = [&](const Model& model) {
    std::vector<float> rows(ids.size() * model.info().d_model);
    model.Embed({.ids = ids}, rows.data());
    return rows;
  };
  EXPECT_EQ(embedded(*loaded->model), embedded(floats.model()));
}

TEST_F(LoadModelTest, NamesTheTensorThatIsMissingOrMisshapen) {
  Copy("models/gpt2");
  ChangeTensors([](NamedTensors& tensors) { tensors.erase("transformer.h.1.mlp.c_fc.weight"); });
  EXPECT_THAT(Load(), StatusIs(kInvalid,
                               AllOf(HasSubstr("model.safetensors: tensor \"h.1.mlp.c_fc.weight\""),
                                     HasSubstr("found none of that name"))));
  Copy("models/gpt2");
  ChangeTensors([](NamedTensors& tensors) {
    tensors["transformer.h.0.attn.c_attn.weight"] = Tensor(Dtype::kF32, {108, 36});
  });
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("tensor \"transformer.h.0.attn.c_attn.weight\": "
                                                   "expected shape [36, 108], found [108, 36]")));
}

TEST_F(LoadModelTest, RefusesFilesThatLie) {
  Copy("models/gpt2");
  const std::string good = ReadFile(PathOf("model.safetensors"));
  WriteFile(PathOf("model.safetensors"), good.substr(0, good.size() - 4));
  EXPECT_THAT(Load(),
              StatusIs(kInvalid, AllOf(HasSubstr("model.safetensors: tensor"),
                                       HasSubstr("expected data_offsets within the file's"))));
  WriteFile(PathOf("model.safetensors"), good.substr(0, 100));
  EXPECT_THAT(Load(), StatusIs(kInvalid, AllOf(HasSubstr("the file ends inside its header"),
                                               HasSubstr("found 100"))));
  WriteFile(PathOf("model.safetensors"), "");
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("expected at least the 8 bytes")));
  std::string unknown = good;
  unknown.replace(unknown.find("\"F32\""), 5, "\"F33\"");
  WriteFile(PathOf("model.safetensors"), unknown);
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("found \"F33\"")));
  std::string integers = good;
  integers.replace(integers.find("\"F32\""), 5, "\"I32\"");
  WriteFile(PathOf("model.safetensors"), integers);
  EXPECT_THAT(Load(),
              StatusIs(kInvalid, HasSubstr("expected dtype F32, BF16, F16 or F64, found I32")));
}

TEST_F(LoadModelTest, RefusesAnIndexThatLies) {
  Copy("models/llama-sharded");
  const std::string good = ReadFile(PathOf("model.safetensors.index.json"));
  const auto spoil = [&](const std::function<void(json&)>& change) {
    json index = json::parse(good);
    change(index["weight_map"]);
    WriteFile(PathOf("model.safetensors.index.json"), index.dump());
    return Load();
  };
  EXPECT_THAT(
      spoil([](json& map) { map["model.norm.weight"] = "../elsewhere.safetensors"; }),
      StatusIs(kInvalid, AllOf(HasSubstr("index.json"), HasSubstr("../elsewhere.safetensors"))));
  EXPECT_THAT(
      spoil([](json& map) { map["model.norm.weight"] = 3; }),
      StatusIs(kInvalid, HasSubstr("weight_map.model.norm.weight: expected a string, found 3")));
  EXPECT_THAT(
      spoil([](json& map) { map["model.no.weight"] = map["model.norm.weight"]; }),
      StatusIs(kInvalid, HasSubstr("tensor \"model.no.weight\": expected as the index says")));
  EXPECT_THAT(spoil([](json& map) { map["model.norm.weight"] = "none.safetensors"; }),
              StatusIs(kNotFound, HasSubstr("none.safetensors")));
  WriteFile(PathOf("model.safetensors.index.json"), "{}");
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("weight_map: expected an object, found none")));
}

TEST_F(LoadModelTest, ReadsTensorsOfAnyAlignment) {
  Copy("models/gpt2");
  std::string file = ReadFile(PathOf("model.safetensors"));
  uint64_t header_bytes = 0;
  file.copy(reinterpret_cast<char*>(&header_bytes), 8);
  file.insert(8 + header_bytes, " ");
  ++header_bytes;
  file.replace(0, 8, reinterpret_cast<const char*>(&header_bytes), 8);
  WriteFile(PathOf("model.safetensors"), file);
  EXPECT_THAT(Load(), IsOk());
}

TEST_F(LoadModelTest, TellsWhichTensorsItDoesNotUse) {
  const auto bert =
      LoadModel({.name = "m", .folder = TestCheckpointPath("models/bert")}, WeightsDtype::kF32);
  ASSERT_THAT(bert, IsOk());
  EXPECT_THAT(bert->unused_tensors, Contains(HasSubstr("cls.predictions")));
  const auto llama =
      LoadModel({.name = "m", .folder = TestCheckpointPath("models/llama")}, WeightsDtype::kF32);
  ASSERT_THAT(llama, IsOk());
  EXPECT_THAT(llama->unused_tensors, IsEmpty());
}

}  // namespace
}  // namespace attention
