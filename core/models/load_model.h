// Loads a model from a folder of Hugging Face's layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model.h"

namespace attention {

struct ModelSource {
  std::string name;
  int64_t version = 1;
  /// The folder, with config.json and model.safetensors, or model.safetensors.index.json and its
  /// shards.
  std::string folder;
};

struct LoadedModel {
  std::unique_ptr<Model> model;
  /// The tensors of the checkpoint that the model does not use.
  std::vector<std::string> unused_tensors;
  /// The size of the checkpoint's tensors that were read.
  int64_t read_bytes = 0;
  /// Why the tokenizer.json could not be used; the model then accepts no text.
  absl::Status tokenizer_status = {};
};

/// Maps the checkpoint, checks every tensor's name, shape and dtype, packs the weights on the
/// calling thread, and unmaps it: the files are not needed afterwards. NOT_FOUND and
/// INVALID_ARGUMENT name the file, the tensor, what was expected and what was found.
absl::StatusOr<LoadedModel> LoadModel(const ModelSource& source, WeightsDtype weights_dtype);

}  // namespace attention
