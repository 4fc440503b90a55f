#include "server/models/posted_states.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

absl::Status MissingRequiredModel(const std::string& folder, const std::string& name) {
  return absl::NotFoundError(absl::StrCat("--required-models: expected a name of ", folder,
                                          ", found ", name, ", which does not exist"));
}

}  // namespace

void PostedStates::Await(std::set<std::string> found) {
  std::set<std::string> awaited = std::move(found);
  if (folder_.required_names.has_value()) {
    awaited = *folder_.required_names;
    std::erase_if(awaited, [this](const std::string& name) {
      return folder_.reserved_names.contains(name);  // the server's own serve from the start
    });
  }
  {
    MutexLock lock(mutex_);
    awaited_ = std::move(awaited);
  }
  health_.Set(kAllModels, false);
  UpdateAllModels();
}

void PostedStates::SetAllTried() {
  all_tried_ = true;
  UpdateAllModels();
}

void PostedStates::Post(const std::string& name, const Name& posted) {
  const bool is_serving = std::ranges::any_of(
      posted.versions, [](const Version& version) { return version.state.is_serving; });
  {
    MutexLock lock(mutex_);
    if (posted.versions.empty()) {
      posted_.erase(name);
    } else {
      posted_.insert_or_assign(name, posted.versions);
    }
  }
  using Absence = ModelRepository::Absence;
  repository_.SetAbsence(name, is_serving || posted.versions.empty() ? Absence::kUnknown
                               : posted.is_pending                   ? Absence::kLoading
                                                                     : Absence::kNotServed);
  const std::string health_name = HealthNameOf(name);
  if (!folder_.reserved_names.contains(name) && health_.IsServing(health_name) != is_serving) {
    health_.Set(health_name, is_serving);
  }
  const bool is_gone = posted.versions.empty() && !folder_.required_names.has_value();
  if (is_serving || is_gone || posted.is_unloaded) {
    StopAwaiting(name);
  }
}

void PostedStates::StopAwaiting(const std::string& name) {
  bool was_awaited = false;
  {
    MutexLock lock(mutex_);
    was_awaited = awaited_.erase(name) > 0;
  }
  if (was_awaited) {
    UpdateAllModels();
  }
}

void PostedStates::UpdateAllModels() {
  bool is_served = all_tried_ || !folder_.required_names.has_value();
  {
    MutexLock lock(mutex_);
    is_served = is_served && awaited_.empty();
  }
  if (is_served && health_.IsServing(kAllModels) == false) {
    health_.Set(kAllModels, true);
  }
}

std::vector<ModelState> PostedStates::List() const {
  MutexLock lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& [name, versions] : posted_) {
    for (const Version& version : versions) {
      ModelState& state = states.emplace_back(version.state);
      const bool is_in_memory = !version.model.expired();
      if (state.phase == ModelPhase::kUnloaded && is_in_memory) {
        state.phase = ModelPhase::kUnloading;
      }
      state.weights_bytes = is_in_memory ? state.weights_bytes : 0;
    }
  }
  for (const std::string& name : awaited_) {
    if (folder_.required_names.has_value() && !posted_.contains(name)) {
      states.push_back({.name = name,
                        .version = kWholeName,
                        .phase = ModelPhase::kFailed,
                        .error = MissingRequiredModel(folder_.path, name)});
    }
  }
  std::ranges::stable_sort(states, {}, &ModelState::name);
  return states;
}

}  // namespace attention
