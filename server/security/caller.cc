#include "server/security/caller.h"

#include <fnmatch.h>

#include "absl/strings/str_cat.h"

namespace attention {

bool Caller::MayUse(const std::string& model) const {
  return models == nullptr ||
         std::any_of(models->begin(), models->end(), [&model](const std::string& pattern) {
           return fnmatch(pattern.c_str(), model.c_str(), 0) == 0;
         });
}

absl::Status Caller::CheckModel(const std::string& model) const {
  const std::string name = model.empty() ? kWithoutModel : model;
  if (MayUse(name)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("model: expected one that tenant \"", tenant,
                                                  "\" may use, found \"", name,
                                                  "\"; ListModels lists them"));
}

absl::Status Caller::HideOtherModels(const absl::Status& status) const {
  return models != nullptr && absl::IsNotFound(status)
             ? absl::NotFoundError(
                   "model: expected the name and version of a served model, found a name or "
                   "version that is not; ListModels lists them")
             : status;
}

}  // namespace attention
