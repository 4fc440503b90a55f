// The model that a request names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"

namespace attention {

/// UNAVAILABLE for a model that is being loaded. NOT_FOUND names the models, or the versions, there
/// are. Without a version: the highest.
absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name,
                                                       std::optional<int64_t> version);

}  // namespace attention
