// The inputs and outputs of models, as the Open Inference Protocol names them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "core/tensor/tensor.h"
#include "server/security/caller.h"
#include "server/services/plan/find_model.h"

namespace attention {

/// The only version of kWithoutModel.
inline constexpr int64_t kWithoutModelVersion = 1;

struct TensorInterface {
  std::string name;
  /// The accepted datatypes, the usual one first; for an output, its own, or those of the input.
  std::vector<std::string> datatypes;
  /// The shape, with the batch first; -1: any extent.
  Shape shape;
  bool is_optional = false;
  /// Whether metadata call it required although it is optional: clients that follow them get an
  /// answer without other inputs.
  bool is_required_in_metadata = false;
};

struct ModelInterface {
  /// The inputs, including those that exclude each other, which are then optional.
  std::vector<TensorInterface> inputs;
  /// The outputs that every request can ask for. With the parameter `layer` a whole stack also has
  /// `weights`.
  std::vector<TensorInterface> outputs;
};

/// The model of a request.
struct InferTarget {
  std::string name;
  int64_t version = 0;
  /// Null: attention without a model.
  std::shared_ptr<const Model> model;
};

/// Finds a model, which `field` names. `version` is a decimal number, or empty or "-1" for the
/// highest version. NOT_FOUND names the models or versions that exist; UNAVAILABLE for a model that
/// is being loaded; INVALID_ARGUMENT for a version that is no number.
absl::StatusOr<InferTarget> FindTarget(const ModelRepository& models, const std::string& name,
                                       const std::string& version, ModelField field);

ModelInterface InterfaceOf(const InferTarget& target);

/// Returns `model "gpt2"`.
std::string NameInErrors(const InferTarget& target);

}  // namespace attention
