#include "core/models/model_repository.h"

#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status ModelRepository::AddSeeded(const SeededModelSpec& spec) {
  if (Find(spec.name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("model name '", spec.name, "' is taken"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, Model::CreateSeeded(spec));
  Publish(std::move(model));
  return absl::OkStatus();
}

void ModelRepository::Publish(std::shared_ptr<const Model> model) {
  MutexLock lock(mutex_);
  const ModelInfo& info = model->info();
  std::swap(models_[{info.name, info.version}],
            model);  // the old one is destroyed after the lock is released
}

bool ModelRepository::Withdraw(const std::string& name, int64_t version) {
  std::shared_ptr<const Model> withdrawn;
  MutexLock lock(mutex_);
  const auto found = models_.find({name, version});
  if (found == models_.end()) {
    return false;
  }
  withdrawn = std::move(found->second);
  models_.erase(found);
  return true;
}

std::shared_ptr<const Model> ModelRepository::Find(const std::string& name,
                                                   std::optional<int64_t> version) const {
  MutexLock lock(mutex_);
  if (version.has_value()) {
    const auto found = models_.find({name, *version});
    return found == models_.end() ? nullptr : found->second;
  }
  const auto next = models_.upper_bound({name, std::numeric_limits<int64_t>::max()});
  const bool is_there = next != models_.begin() && std::prev(next)->first.first == name;
  return is_there ? std::prev(next)->second : nullptr;
}

void ModelRepository::SetAbsence(const std::string& name, Absence absence) {
  MutexLock lock(mutex_);
  if (absence == Absence::kUnknown) {
    absences_.erase(name);
  } else {
    absences_[name] = absence;
  }
}

ModelRepository::Absence ModelRepository::AbsenceOf(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = absences_.find(name);
  return found == absences_.end() ? Absence::kUnknown : found->second;
}

std::vector<std::shared_ptr<const Model>> ModelRepository::List() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const Model>> result;
  for (const auto& [name_and_version, model] : models_) {
    result.push_back(model);
  }
  return result;
}

}  // namespace attention
