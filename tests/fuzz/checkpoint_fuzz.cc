// A config.json, and where "\nINDEX\n" follows an index of shards, beside the weights of a
// checkpoint of tests/data/models, whose name is the first line.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "core/models/model_folder.h"
#include "server/models/load_version.h"
#include "tests/core/models/ask_model.h"

namespace attention {
namespace {

namespace fs = std::filesystem;

/// A copy of each checkpoint that was asked for, whose text files are to be written over.
class Checkpoints {
 public:
  Checkpoints() : root_("/tmp/attend_fuzz_XXXXXX") {
    if (mkdtemp(root_.data()) == nullptr) {
      std::abort();
    }
  }
  ~Checkpoints() { fs::remove_all(root_); }

  /// Empty for a name that no checkpoint has.
  std::string FolderOf(const std::string& name) const {
    const fs::path source = fs::path(ATTEND_TEST_DATA) / "models" / name;
    std::error_code too_long;  // a name can be
    // A path ends at a zero byte.
    if (name.empty() || name.find_first_of(std::string_view("/.\0", 3)) != name.npos ||
        !fs::exists(source, too_long)) {
      return "";
    }
    const fs::path copy = fs::path(root_) / name;
    if (!fs::exists(copy)) {
      fs::copy(source, copy);
    }
    return copy.string();
  }

 private:
  std::string root_;
};

void Write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace
}  // namespace attention

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const attention::Checkpoints checkpoints;
  constexpr std::string_view kSeparator = "\nINDEX\n";
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  const std::string folder = checkpoints.FolderOf(std::string(input.substr(0, line)));
  if (folder.empty() || line == input.npos) {
    return -1;  // nothing for the corpus
  }
  const std::string_view texts = input.substr(line + 1);
  const size_t split = texts.find(kSeparator);
  attention::Write(folder + "/config.json", texts.substr(0, split));
  if (split != texts.npos) {
    attention::Write(folder + "/model.safetensors.index.json",
                     texts.substr(split + kSeparator.size()));
  }
  const auto ready = attention::LoadVersion(
      {.source = {.name = "m", .folder = folder}, .fingerprint = attention::FingerprintOf(folder)},
      attention::LoadModel);
  if (ready.ok() && !attention::AskModel(*ready->loaded.model).ok()) {
    std::abort();
  }
  return 0;
}
