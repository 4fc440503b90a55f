// The same for an index of shards and for the header of a safetensors file.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "nlohmann/json.hpp"
#include "tests/core/models/ask_model.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/matchers.h"
#include "tests/support/mutations.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";

class MutatedFilesTest : public ::testing::Test {
 protected:
  void Copy(const std::string& checkpoint) {
    for (const auto& file :
         std::filesystem::directory_iterator(TestCheckpointPath("models/" + checkpoint))) {
      if (file.path().filename() != "cases.safetensors") {
        std::filesystem::copy(file.path(), folder_.path());
      }
    }
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_.path() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Loads, asks what can be asked, and counts.
  void Try() {
    const AllocationMeter meter;
    const auto loaded = LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32);
    EXPECT_LE(meter.peak_bytes(), int64_t{4} << 20);
    if (loaded.ok()) {
      ++answered_;
      EXPECT_THAT(AskModel(*loaded->model), IsOk());
      return;
    }
    ++refused_;
    const absl::string_view error = loaded.status().message();
    EXPECT_TRUE(absl::StrContains(error, folder_.path())) << error;
  }

  const TempFolder folder_;
  int refused_ = 0;
  int answered_ = 0;
};

TEST_F(MutatedFilesTest, AnIndexIsRefusedAndNamedOrFollowed) {
  Copy("llama-sharded");
  for (const Mutation& mutation : MutationsOf(json::parse(Read(kIndex)))) {
    SCOPED_TRACE(absl::StrCat(mutation.key, " = ", mutation.value));
    folder_.Write(kIndex, mutation.text);
    Try();
  }
  EXPECT_GT(refused_, 100);
  EXPECT_GT(answered_, 10);
}

TEST_F(MutatedFilesTest, AHeaderIsRefusedAndNamedOrFollowed) {
  Copy("torch_mha-all");
  const std::string file = Read("model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const std::string data = file.substr(8 + header_bytes);
  for (const Mutation& mutation : MutationsOf(json::parse(file.substr(8, header_bytes)))) {
    SCOPED_TRACE(absl::StrCat(mutation.key, " = ", mutation.value));
    const uint64_t size = mutation.text.size();
    std::string length(8, '\0');
    std::memcpy(length.data(), &size, sizeof(size));
    folder_.Write("model.safetensors", length + mutation.text + data);
    Try();
  }
  EXPECT_GT(refused_, 100);
}

TEST_F(MutatedFilesTest, AFileShorterThanItsHeaderSaysIsRefusedAtAnyLength) {
  Copy("torch_mha-all");
  const std::string file = Read("model.safetensors");
  for (size_t size = 0; size < file.size(); size += size < 1000 ? 1 : 997) {
    folder_.Write("model.safetensors", file.substr(0, size));
    EXPECT_THAT(LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32),
                StatusIs(kInvalid, HasSubstr("model.safetensors: ")));
  }
}

TEST_F(MutatedFilesTest, ManyNamesOfOneShardAreOneFile) {
  Copy("llama-sharded");
  json index = json::parse(Read(kIndex));
  // Of 11 steps that lead nowhere, each written in one of two ways.
  const auto other_name = [](int number, std::string name) {
    for (int bit = 0; bit < 11; ++bit) {
      name.insert(0, (number >> bit) % 2 == 0 ? "./" : ".//");
    }
    return name;
  };
  // As large as the index is, each of those names would be a table of so many tensors.
  const std::string shard = "model-00001-of-00002.safetensors";
  const std::string file = Read(shard);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  json header = json::parse(file.substr(8, header_bytes));
  for (int i = 0; i < 2000; ++i) {
    const std::string name = absl::StrCat("more.", i);
    header[name] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    index["weight_map"][name] = other_name(i, shard);
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::string length(8, '\0');
  std::memcpy(length.data(), &size, sizeof(size));
  folder_.Write(shard, length + text + file.substr(8 + header_bytes));
  const std::string index_text = index.dump();
  folder_.Write(kIndex, index_text);
  const AllocationMeter meter;
  EXPECT_THAT(LoadModel({.name = "m", .folder = folder_.path()}, WeightsDtype::kF32), IsOk());
  EXPECT_LE(meter.peak_bytes(), 30 * std::ssize(index_text + text));
}

}  // namespace
}  // namespace attention
