// Inputs and outputs of what is served, as the Open Inference Protocol names them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "core/tensor/tensor.h"
#include "server/security/caller.h"

namespace attention {

/// Of kBareAttention, the only one.
inline constexpr int64_t kBareAttentionVersion = 1;

struct TensorInterface {
  std::string name;
  /// All that are taken, the usual one first; of an output: its own, or as the input's.
  std::vector<std::string> datatypes;
  /// The batch comes first; -1: any extent.
  Shape shape;
  bool is_optional = false;
  /// Metadata call it required all the same: what they do is answered without any other input.
  bool is_usual = false;
};

struct ModelInterface {
  /// Also those that exclude each other, which are optional then.
  std::vector<TensorInterface> inputs;
  /// That every request can ask for. With parameter `layer` a whole stack has `weights`, too.
  std::vector<TensorInterface> outputs;
};

/// What a request is for.
struct InferTarget {
  std::string name;
  int64_t version = 0;
  /// Null: attention without weights.
  std::shared_ptr<const Model> model;
};

/// `version` is a decimal number, or empty or "-1" for the highest there is. NOT_FOUND names the
/// models or versions there are; UNAVAILABLE for a model that is being loaded; INVALID_ARGUMENT for
/// a version that is no number.
absl::StatusOr<InferTarget> FindTarget(const ModelRepository& models, const std::string& name,
                                       const std::string& version);

ModelInterface InterfaceOf(const InferTarget& target);

/// `model "gpt2"`.
std::string NameInErrors(const InferTarget& target);

}  // namespace attention
