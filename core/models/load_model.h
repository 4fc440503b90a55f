// A model from a folder of Hugging Face's layout.
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
  /// Holds config.json and model.safetensors, or model.safetensors.index.json and its shards.
  std::string folder;
};

struct LoadedModel {
  std::unique_ptr<Model> model;
  /// Tensors of the checkpoint that the model does not use.
  std::vector<std::string> unused_tensors;
  /// Of the checkpoint's tensors that were read.
  int64_t read_bytes = 0;
  /// Why a tokenizer.json could not be used; the model then takes no text.
  absl::Status tokenizer_status = {};
};

/// Maps the checkpoint, checks every tensor's name, shape and dtype, packs the weights on the
/// calling thread, and unmaps it: afterwards the files may go. NOT_FOUND and INVALID_ARGUMENT name
/// the file, the tensor, what was expected and what was found.
absl::StatusOr<LoadedModel> LoadModel(const ModelSource& source, WeightsDtype weights_dtype);

/// `model_type`s that LoadModel knows.
std::vector<std::string> KnownModelTypes();

}  // namespace attention
