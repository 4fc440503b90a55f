// Every value of every family's config.json, changed in every way: the model is refused with an
// error that says what is wrong, or it answers.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/models/families/families.h"
#include "core/models/load_model.h"
#include "nlohmann/json.hpp"
#include "tests/core/models/ask_model.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/matchers.h"
#include "tests/support/mutations.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;

/// Keys that no family reads.
const char* const kUnread[] = {
    "architectures",        "attention_dropout",  "attention_probs_dropout_prob",
    "bos_token_id",         "classifier_dropout", "embd_pdrop",
    "eos_token_id",         "hidden_dropout",     "hidden_dropout_prob",
    "initializer_range",    "pretraining_tp",     "resid_pdrop",
    "transformers_version", "use_cache"};

/// Of members at any depth.
std::vector<std::string> NamesIn(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    names.push_back(name);
    if (value.is_object()) {
      const std::vector<std::string> inner = NamesIn(value);
      names.insert(names.end(), inner.begin(), inner.end());
    }
  }
  return names;
}

/// Folders of tests/data/models.
const char* const kCheckpoints[] = {"bert",
                                    "causal_self_attention",
                                    "distilbert",
                                    "gemma2",
                                    "gemma2-layer-types",
                                    "gpt2",
                                    "gpt_neox",
                                    "gpt_neox-sequential",
                                    "llama",
                                    "llama-rope-dynamic",
                                    "llama-rope-linear",
                                    "llama-rope-llama3",
                                    "llama-rope-longrope",
                                    "llama-rope-yarn",
                                    "llama-rope-yarn-mscale",
                                    "llama-sharded",
                                    "mistral",
                                    "mistral-layer-types",
                                    "phi3",
                                    "phi3-longrope",
                                    "phi3-longrope-as-yarn",
                                    "qwen2-layer-types",
                                    "qwen2-window",
                                    "qwen3",
                                    "roberta",
                                    "self_attention",
                                    "torch_mha-all",
                                    "torch_mha-kdim-vdim",
                                    "torch_transformer",
                                    "xlm-roberta"};

class MutatedConfigTest : public ::testing::TestWithParam<const char*> {
 protected:
  MutatedConfigTest() {
    const std::filesystem::path source = TestCheckpointPath(absl::StrCat("models/", GetParam()));
    for (const auto& file : std::filesystem::directory_iterator(source)) {
      if (file.path().filename() != "cases.safetensors") {
        std::filesystem::copy(file.path(), folder_.path());
        file_bytes_ += static_cast<int64_t>(file.file_size());
      }
    }
    config_ = json::parse(std::ifstream(source / "config.json"));
    keys_ = NamesIn(config_);
  }

  absl::StatusOr<LoadedModel> Load(const std::string& config) const {
    folder_.Write("config.json", config);
    return LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
  }

  /// The key itself, a tensor that is not as the key says, or another key that it contradicts; a
  /// head's width may follow from two others.
  bool IsNamedIn(absl::string_view error, const std::string& key) const {
    const auto names = [&](const std::string& name) {
      return absl::StrContains(error, absl::StrCat(name, ": expected")) ||
             absl::StrContains(error, absl::StrCat(name, "["));
    };
    const bool names_other =
        std::any_of(keys_.begin(), keys_.end(), [&](const auto& name) { return names(name); });
    return names(key) || names_other || absl::StrContains(error, "tensor \"") ||
           names("head_dim") || (key == "type" && names("rope_type"));
  }

  const TempFolder folder_;
  json config_;
  std::vector<std::string> keys_;
  int64_t file_bytes_ = 0;
};

TEST_P(MutatedConfigTest, IsRefusedByNameOrAnswers) {
  const std::vector<std::string> unread(std::begin(kUnread), std::end(kUnread));
  int refused = 0;
  int answered = 0;
  const std::vector<Mutation> mutations = MutationsOf(config_, unread);
  // Under a sanitizer every fifth: of each value of the file others.
  constexpr size_t kStep = kSlowdown > 1 ? 5 : 1;
  for (size_t i = 0; i < mutations.size(); i += kStep) {
    const Mutation& mutation = mutations[i];
    SCOPED_TRACE(absl::StrCat(mutation.key, " = ", mutation.value));
    const AllocationMeter meter;
    const absl::StatusOr<LoadedModel> loaded = Load(mutation.text);
    // Most of it is the descriptions of 4,096 layers, before the first of their tensors is missed.
    EXPECT_LE(meter.peak_bytes(), (int64_t{64} << 20) + 20 * file_bytes_);
    if (loaded.ok()) {
      ++answered;
      EXPECT_LE(loaded->model->info().weights_bytes, 64 * file_bytes_);
      EXPECT_THAT(AskModel(*loaded->model), IsOk());
    } else {
      ++refused;
      EXPECT_TRUE(IsNamedIn(loaded.status().message(), mutation.key))
          << loaded.status().ToString().substr(0, 400);
      EXPECT_LE(loaded.status().message().size(), 1000u);
    }
  }
  EXPECT_GT(refused, 20 / static_cast<int>(kStep));
  EXPECT_GT(answered, 1 / static_cast<int>(kStep));
}

INSTANTIATE_TEST_SUITE_P(Families, MutatedConfigTest, ::testing::ValuesIn(kCheckpoints),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(MutatedConfigsTest, CoverEveryFamily) {
  std::set<DescribeFamily> covered;
  for (const std::string& model_type : FamilyNames()) {
    for (const std::string name : kCheckpoints) {
      if (name == model_type || name.starts_with(model_type + "-")) {
        covered.insert(FindFamily(model_type));
      }
    }
  }
  for (const std::string& model_type : FamilyNames()) {
    EXPECT_TRUE(covered.contains(FindFamily(model_type))) << model_type;
  }
}

}  // namespace
}  // namespace attention
