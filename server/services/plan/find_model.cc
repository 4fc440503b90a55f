#include "server/services/plan/find_model.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention {
namespace {

absl::Status NoSuchModel(const ModelRepository& models, const std::string& name,
                         ModelRepository::Absence absence, const ModelField& field) {
  std::set<std::string> served;
  for (const std::shared_ptr<const Model>& model : models.List()) {
    served.insert(model->name());
  }
  std::vector<std::string> names = field.other_names;
  names.insert(names.end(), served.begin(), served.end());
  return absl::NotFoundError(absl::StrCat(
      field.path, ": expected one of \"", absl::StrJoin(names, "\", \""), "\", found \"", name,
      absence == ModelRepository::Absence::kNotServed ? "\", which failed to load or was unloaded "
                                                        "(attend models --states says why)"
                                                      : "\""));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name,
                                                       std::optional<int64_t> version,
                                                       const ModelField& field) {
  // Asked first, so that a model that arrives meanwhile is found.
  const ModelRepository::Absence absence = models.AbsenceOf(name);
  if (std::shared_ptr<const Model> model = models.Find(name, version)) {
    return model;
  }
  std::vector<int64_t> versions;
  for (const std::shared_ptr<const Model>& model : models.List()) {
    if (model->name() == name) {
      versions.push_back(model->info().version);
    }
  }
  if (absence == ModelRepository::Absence::kLoading) {
    return absl::UnavailableError(absl::StrCat("model \"", name, "\" is being loaded"));
  }
  if (versions.empty() || !version.has_value()) {
    return NoSuchModel(models, name, absence, field);
  }
  return absl::NotFoundError(
      absl::StrCat(field.version_path, ": expected ", versions.size() > 1 ? "one of " : "",
                   absl::StrJoin(versions, ", "), " of model \"", name, "\", found ", *version));
}

}  // namespace attention
