// Checkpoints made to exhaust memory, stack or patience.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "core/tensor/safetensors_header.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HostileCheckpointTest : public ::testing::Test {
 protected:
  void Copy(const std::string& checkpoint) {
    std::filesystem::copy(TestCheckpointPath(checkpoint), folder_.path(),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  }
  std::string PathOf(const std::string& file) const { return folder_.path() + "/" + file; }
  absl::Status Load() {
    return LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32).status();
  }
  /// With one key changed.
  absl::Status LoadWith(const std::string& checkpoint, const std::string& key, const json& value) {
    Copy(checkpoint);
    json config = json::parse(std::ifstream(PathOf("config.json")));
    config[key] = value;
    std::ofstream(PathOf("config.json")) << config;
    return Load();
  }

  TempFolder folder_;
};

TEST_F(HostileCheckpointTest, ExtentsThatNoTensorHasAllocateNothing) {
  constexpr int64_t kHuge = 16'000'000;
  EXPECT_THAT(LoadWith("models/llama", "num_hidden_layers", kHuge),
              StatusIs(kInvalid, HasSubstr("num_hidden_layers: expected a whole number of 1 to "
                                           "4096, found 16000000")));
  EXPECT_THAT(LoadWith("models/llama-rope-linear", "head_dim", kHuge),
              StatusIs(kInvalid, HasSubstr("head_dim: expected at most 512, found 16000000")));
  // Heads of 8 elements still, whose shared matrices are there.
  Copy("models/self_attention");
  std::ofstream(PathOf("config.json"))
      << json{{"model_type", "self_attention"}, {"embed_size", kHuge}, {"heads", kHuge / 8}};
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("fc_out.weight\": expected shape [16000000")));
}

TEST_F(HostileCheckpointTest, APaddingIdThatLeavesNoPositionIsRefused) {
  // Of 24 positions, those up to the padding's own are no token's.
  for (const int64_t id : {int64_t{23}, int64_t{24}, int64_t{16777216}, int64_t{1} << 40}) {
    EXPECT_THAT(
        LoadWith("models/roberta", "pad_token_id", id),
        StatusIs(kInvalid, HasSubstr(absl::StrCat(
                               "pad_token_id: expected a whole number of 0 to 22, found ", id))));
  }
  EXPECT_THAT(LoadWith("models/roberta", "max_position_embeddings", 4),
              StatusIs(kInvalid, HasSubstr("pad_token_id: expected a whole number of 0 to 2")));
}

TEST_F(HostileCheckpointTest, ASequenceAsLongAsAModelListsEndsWithinItsPositions) {
  Copy("models/roberta");
  for (const int64_t id : {0, 3, 22}) {
    ASSERT_THAT(LoadWith("models/roberta", "pad_token_id", id), IsOk());
    const auto loaded = LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
    const Model& model = *loaded->model;
    const std::optional<int64_t> longest = model.info().max_positions;
    ASSERT_EQ(longest, 23 - id);
    const std::vector<int32_t> ids(*longest + 1, 5);
    EXPECT_THAT(model.ValidateTokens({.ids = ids}), StatusIs(kInvalid, HasSubstr("at most")));
    const TokenSequence tokens{.ids = std::span(ids).first(*longest)};
    ASSERT_THAT(model.ValidateTokens(tokens), IsOk());
    std::vector<float> rows(*longest * model.info().d_model);
    model.Embed(tokens, rows.data());
  }
}

TEST_F(HostileCheckpointTest, DeepNestingIsRefusedWithoutRecursion) {
  constexpr size_t kDepth = 3'000'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const std::string message = "expected at most 32 levels of nesting";
  EXPECT_THAT(ParseSafetensorsHeader("{\"x\":{\"shape\":" + deep + "}}", 0).status(),
              StatusIs(kInvalid, HasSubstr(message)));
  Copy("models/llama-sharded");
  std::ofstream(PathOf("model.safetensors.index.json")) << "{\"weight_map\":" << deep << "}";
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("index.json: " + message)));
  std::ofstream(PathOf("config.json")) << "{\"rope_scaling\":" << deep << "}";
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("config.json: " + message)));
}

TEST_F(HostileCheckpointTest, BracketsWithinStringsAreNoNesting) {
  EXPECT_THAT(LoadWith("models/llama", "_name", std::string(100, '{') + "\\\"" + "[["), IsOk());
}

TEST_F(HostileCheckpointTest, PipesAreRefusedInsteadOfWaitedFor) {
  for (const char* file : {"model.safetensors", "config.json"}) {
    Copy("models/llama");
    std::filesystem::remove(PathOf(file));
    ASSERT_EQ(mkfifo(PathOf(file).c_str(), 0600), 0);
    EXPECT_THAT(Load(),
                StatusIs(kInvalid, HasSubstr(absl::StrCat(file, ": expected a regular file"))));
    std::filesystem::remove(PathOf(file));
  }
}

TEST_F(HostileCheckpointTest, AFolderInPlaceOfTheIndexIsRefused) {
  Copy("models/llama-sharded");
  std::filesystem::remove(PathOf("model.safetensors.index.json"));
  std::filesystem::create_directory(PathOf("model.safetensors.index.json"));
  EXPECT_THAT(Load(), StatusIs(kInvalid, HasSubstr("model.safetensors.index.json")));
}

TEST_F(HostileCheckpointTest, TensorsOfForeignDtypesMayLieBesideTheModels) {
  Copy("models/llama");
  std::ifstream file(PathOf("model.safetensors"), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  uint64_t header_bytes = 0;
  text.copy(reinterpret_cast<char*>(&header_bytes), 8);
  json header = json::parse(text.substr(8, header_bytes));
  const std::string data = text.substr(8 + header_bytes);
  const json place = {data.size(), data.size() + 4};
  header["scales"] = {{"dtype", "F8_E4M3"}, {"shape", {4}}, {"data_offsets", place}};
  const std::string written = header.dump();
  header_bytes = written.size();
  std::ofstream(PathOf("model.safetensors"), std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&header_bytes), 8) << written << data << "1234";
  EXPECT_THAT(Load(), IsOk());
}

}  // namespace
}  // namespace attention
