// Checks requests that change which models are served.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {

/// Returns UNIMPLEMENTED for the name of a repository: there is one repository, without a name.
absl::Status CheckRepositoryName(const std::string& name);

/// Returns the model's name, which Triton's clients put into field 2, and KServe's into field 1,
/// where Triton has the name of a repository.
template <typename Request>
const std::string& ModelNameOf(const Request& request) {
  return request.model_name().empty() ? request.repository_name() : request.model_name();
}

/// Returns an error of the native API about `model` as one about the field that names the model.
template <typename Request>
absl::Status AboutModelOf(const Request& request, const absl::Status& status) {
  constexpr std::string_view kModel = "model: ";
  const std::string text(status.message());
  if (!text.starts_with(kModel)) {
    return status;
  }
  const bool is_kserve = request.model_name().empty() && !request.repository_name().empty();
  return absl::Status(status.code(), (is_kserve ? "repository_name: " : "model_name: ") +
                                         text.substr(kModel.size()));
}

/// Checks the request. INVALID_ARGUMENT names the parameter; FAILED_PRECONDITION without a folder
/// of models.
absl::Status CheckChange(const inference::RepositoryModelLoadRequest& request, bool has_folder);
absl::Status CheckChange(const inference::RepositoryModelUnloadRequest& request, bool has_folder);

}  // namespace attention
