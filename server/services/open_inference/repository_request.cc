#include "server/services/open_inference/repository_request.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/models/model_loader.h"

namespace attention {
namespace {

absl::Status CheckFolder(bool has_folder) {
  return has_folder ? absl::OkStatus() : NoModelFolder();
}

// A name in this field alone is the model's.
template <typename Request>
absl::Status CheckRepositoryOf(const Request& request) {
  return request.model_name().empty() ? absl::OkStatus()
                                      : CheckRepositoryName(request.repository_name());
}

}  // namespace

absl::Status CheckRepositoryName(const std::string& name) {
  return name.empty() ? absl::OkStatus()
                      : absl::UnimplementedError(absl::StrCat(
                            "repository_name: expected none, as there is one repository, found \"",
                            name, "\""));
}

absl::Status CheckChange(const inference::RepositoryModelLoadRequest& request, bool has_folder) {
  RETURN_IF_ERROR(CheckRepositoryOf(request));
  RETURN_IF_ERROR(CheckFolder(has_folder));
  for (const auto& [name, parameter] : request.parameters()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: expected none: models are read from the server's folder, found \"", name,
        "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckChange(const inference::RepositoryModelUnloadRequest& request, bool has_folder) {
  RETURN_IF_ERROR(CheckRepositoryOf(request));
  RETURN_IF_ERROR(CheckFolder(has_folder));
  for (const auto& [name, parameter] : request.parameters()) {
    if (name != "unload_dependents" || !parameter.has_bool_param()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters: expected unload_dependents (bool) or none, found \"", name, "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
