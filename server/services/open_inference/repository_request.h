// Requests that change which models are served, checked.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {

/// UNIMPLEMENTED for a name: there is one repository, without a name.
absl::Status CheckRepositoryName(const std::string& name);

/// Triton's clients name the model in field 2, KServe's in field 1, Triton's name of a repository.
template <typename Request>
const std::string& ModelNameOf(const Request& request) {
  return request.model_name().empty() ? request.repository_name() : request.model_name();
}

/// INVALID_ARGUMENT names the parameter; FAILED_PRECONDITION without a folder of models.
absl::Status CheckChange(const inference::RepositoryModelLoadRequest& request, bool has_folder);
absl::Status CheckChange(const inference::RepositoryModelUnloadRequest& request, bool has_folder);

}  // namespace attention
