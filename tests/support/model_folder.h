// A folder of models for tests, whose "weights" are the number of a seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "core/tensor/safetensors.h"
#include "tests/support/temp_folder.h"

namespace attention {

/// Folders appear whole, as those of an operator should: they are written elsewhere, then renamed.
class FakeModelFolder {
 public:
  /// Puts DIR/`place` there, or replaces it; `place` is NAME or NAME/VERSION.
  void Put(const std::string& place, const std::string& weights) const {
    namespace fs = std::filesystem;
    temp_.Write("new/config.json", "{}");
    temp_.Write("new/weights", weights);
    const fs::path target = fs::path(path()) / place;
    fs::create_directories(target.parent_path());
    Remove(place);
    fs::rename(temp_.path() + "/new", target);
  }
  void Remove(const std::string& place) const {
    // Out of sight first: what is half removed is a broken model.
    const std::string target = path() + "/" + place;
    if (std::filesystem::exists(target)) {
      std::filesystem::rename(target, temp_.path() + "/old");
      std::filesystem::remove_all(temp_.path() + "/old");
    }
  }

  std::string path() const { return temp_.path() + "/models"; }

 private:
  const TempFolder temp_;
  const bool is_made_ = std::filesystem::create_directory(path());
};

/// A LoadFunction for it: one attention layer of d_model 32 made from that seed; weights that are
/// no number are INVALID_ARGUMENT.
inline absl::StatusOr<LoadedModel> LoadFakeModel(const ModelSource& source, WeightsDtype dtype) {
  std::ifstream file(source.folder + "/weights");
  const std::string weights((std::istreambuf_iterator<char>(file)), {});
  SeededModelSpec spec = {.name = source.name,
                          .version = source.version,
                          .d_model = 32,
                          .num_heads = 2,
                          .dtype = dtype == WeightsDtype::kF32 ? Dtype::kF32 : Dtype::kBf16};
  if (!absl::SimpleAtoi(weights, &spec.seed)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.folder, "/weights: expected a seed, found ", weights));
  }
  absl::StatusOr<std::unique_ptr<Model>> model = Model::CreateSeeded(spec);
  if (!model.ok()) {
    return model.status();
  }
  return LoadedModel{.model = *std::move(model), .unused_tensors = {}, .read_bytes = 1000000};
}

}  // namespace attention
