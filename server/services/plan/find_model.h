// The model that a request names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"

namespace attention {

/// How a protocol names a model.
struct ModelField {
  /// The fields of the request.
  std::string path = "model";
  std::string version_path = "model_version";
  /// Names that the field may have besides those of the models.
  std::vector<std::string> other_names = {};
};

/// Finds a version of a model; without `version` the highest. UNAVAILABLE if the model is being
/// loaded; NOT_FOUND lists the models, or the versions, that exist.
absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name,
                                                       std::optional<int64_t> version,
                                                       const ModelField& field = {});

}  // namespace attention
