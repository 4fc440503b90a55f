#include "server/models/model_catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"
#include "server/log/log.h"

namespace attention {
namespace {

// The name of the work in errors.
constexpr char kLoadingWork[] = "loading a model";
constexpr std::chrono::milliseconds kPauseBeforePosting{10};

template <typename Map>
std::string KeysOf(const Map& map) {
  return map.empty() ? "none" : absl::StrJoin(map, ", ", [](std::string* text, const auto& item) {
    absl::StrAppend(text, item.first);
  });
}

FoundModel FoundUnder(const std::string& name, const FoundModels& models) {
  const auto found = models.find(name);
  return found == models.end() ? FoundModel() : found->second;
}

absl::Status UnknownName(const std::string& folder, const std::string& known,
                         const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("model: expected one of ", folder, ": ", known, ", found \"", name, "\""));
}

absl::Status UnknownVersion(const std::string& name, const std::string& known, int64_t version) {
  return absl::NotFoundError(
      absl::StrCat("version: expected one of model ", name, ": ", known, ", found ", version));
}

/// Returns the error of files as a request gets it: NOT_FOUND is for the names that it gives.
absl::Status AsFailure(const absl::Status& error) {
  return absl::IsNotFound(error) ? absl::InvalidArgumentError(error.message()) : error;
}

/// Chooses which versions of a name serve. For each version, from the highest down, Wants is
/// called, then the version is loaded if it is wanted, then Note is called with the result.
class VersionChoice {
 public:
  VersionChoice(const VersionPolicy& policy, bool is_unloaded)
      : policy_(policy), is_satisfied_(is_unloaded) {}

  bool Wants(int64_t number, const ServedVersion& version) const {
    if (version.is_gone()) {  // it stays only when no version could be loaded that replaces it
      return has_failed_ && !serves_ && !is_satisfied_ && version.is_wanted() != false;
    }
    return version.is_wanted().value_or(!is_satisfied_ && policy_.Includes(number));
  }

  void Note(int64_t number, const ServedVersion& version, bool is_wanted) {
    if (is_wanted && !version.is_gone()) {
      has_failed_ = has_failed_ || version.state().phase == ModelPhase::kFailed;
      serves_ = serves_ || version.state().is_serving;
    }
    const bool may_satisfy =
        version.is_gone() ? is_wanted : !is_satisfied_ && policy_.Includes(number);
    if (may_satisfy && policy_.kind == VersionPolicy::Kind::kLatest) {
      // A version that was unloaded on request is not replaced by an older one.
      is_satisfied_ = version.state().is_serving || version.is_wanted() == false;
    }
  }

 private:
  const VersionPolicy& policy_;
  /// The policy wants no further version.
  bool is_satisfied_;
  /// Of the wanted versions that the folder still has, one has failed, and one serves.
  bool has_failed_ = false, serves_ = false;
};

/// Returns the device on which a folder lies; 0 if there is no folder.
uint64_t DeviceOf(const std::string& folder) {
  struct stat found = {};
  return stat(folder.c_str(), &found) == 0 ? found.st_dev : 0;
}

}  // namespace

ModelCatalog::ModelCatalog(const ModelFolder& folder, const ServingEnvironment& environment,
                           HealthRegistry& health)
    : folder_(folder),
      environment_(environment),
      posted_(folder_, environment_.repository, health) {}

absl::Status ModelCatalog::CheckName(const std::string& name) const {
  if (folder_.reserved_names.contains(name)) {
    return absl::FailedPreconditionError(absl::StrCat("model: expected a name of ", folder_.path,
                                                      ", found \"", name,
                                                      "\", which is the server's own"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundModels> ModelCatalog::Scan() const {
  ASSIGN_OR_RETURN(FoundModels found, ScanModelFolder(folder_.path));
  for (auto& [name, model] : found) {
    if (folder_.reserved_names.contains(name)) {
      model = {.status = absl::AlreadyExistsError(
                   absl::StrCat(folder_.path, "/", name, ": expected another name, found '", name,
                                "', which is the server's own"))};
    }
    const std::string there = KeysOf(model.versions);
    for (const int64_t version : folder_.versions.Of(name).versions) {
      if (model.status.ok() && !model.versions.contains(version)) {
        model.versions[version].status =
            absl::NotFoundError(absl::StrCat(folder_.path, "/", name, ": expected version ",
                                             version, " (--model-versions), found ", there));
      }
    }
  }
  return found;
}

absl::Status ModelCatalog::Discover() {
  ASSIGN_OR_RETURN(const FoundModels found, Scan());
  device_ = DeviceOf(folder_.path);
  std::set<std::string> awaited;
  for (const auto& [name, model] : found) {
    Update(name, model);
    awaited.insert(name);
  }
  posted_.Await(std::move(awaited));
  if (found.empty()) {
    posted_.SetAllTried();
  }
  return absl::OkStatus();
}

absl::Status ModelCatalog::Refresh(Occasion occasion) {
  ASSIGN_OR_RETURN(const FoundModels found, Scan());
  const uint64_t device = DeviceOf(folder_.path);
  if (occasion == Occasion::kPoll && found.empty() && !names_.empty() && device != device_) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder_.path,
        ": expected models, found an empty folder of another device, as when its own "
        "is not mounted; models that are served stay until a reload is asked for (attend "
        "models --reload)"));
  }
  device_ = device;
  const FoundModels before = std::exchange(last_found_, found);
  std::set<std::string> names;
  for (const auto& [name, known] : names_) {
    names.insert(name);
  }
  for (const auto& [name, model] : found) {
    names.insert(name);
  }
  if (occasion == Occasion::kPoll) {
    std::erase_if(names, [&](const std::string& name) {
      return FoundUnder(name, found) != FoundUnder(name, before);
    });
  }
  // All names become known before the first model is loaded.
  for (const std::string& name : names) {
    Update(name, FoundUnder(name, found));
  }
  for (const std::string& name : names) {
    Settle(name, occasion);
  }
  posted_.SetAllTried();
  return absl::OkStatus();
}

void ModelCatalog::Update(const std::string& name, const FoundModel& found) {
  Name& known = names_[name];
  std::map<int64_t, FoundVersion> versions = found.versions;
  if (!found.status.ok()) {
    versions[kWholeName] = {.fingerprint = found.status.ToString(), .status = found.status};
  }
  for (auto item = known.versions.begin(); item != known.versions.end();) {
    if (!found.status.ok() || versions.contains(item->first)) {
      ++item;
    } else if (!versions.empty() && item->second.state().is_serving) {
      item->second.SetGone();  // until Settle has loaded what replaces it
      ++item;
    } else {
      item->second.Withdraw();
      item = known.versions.erase(item);
    }
  }
  for (const auto& [number, version] : versions) {
    known.versions.try_emplace(number, environment_, name, number).first->second.set_found(version);
  }
  known.is_pending =
      std::any_of(known.versions.begin(), known.versions.end(), [&](const auto& item) {
        return item.first != kWholeName && !item.second.is_gone() &&
               item.second.is_wanted().value_or(!known.is_unloaded) &&
               item.second.NeedsLoading(Occasion::kPoll);
      });
  Post(name);
  if (known.versions.empty() && !known.is_unloaded) {
    names_.erase(name);
  }
}

void ModelCatalog::Settle(const std::string& name, Occasion occasion) {
  const auto known = names_.find(name);
  if (known == names_.end()) {
    return;
  }
  std::map<int64_t, ServedVersion>& versions = known->second.versions;
  VersionChoice choice(folder_.versions.Of(name), known->second.is_unloaded);
  std::vector<ServedVersion*> unwanted;
  for (auto item = versions.rbegin(); item != versions.rend(); ++item) {
    ServedVersion& version = item->second;
    const bool is_wanted =
        item->first == kWholeName ? IsAsked(known->second) : choice.Wants(item->first, version);
    if (!is_wanted) {
      unwanted.push_back(&version);
    } else if (!version.is_gone()) {
      EnsureServing(version, occasion);
    }
    choice.Note(item->first, version, is_wanted);
  }
  // Unwanted versions are withdrawn after their replacements serve.
  for (ServedVersion* version : unwanted) {
    version->Withdraw();
  }
  std::erase_if(versions, [](const auto& entry) {
    return entry.second.is_gone() && !entry.second.state().is_serving;
  });
  known->second.is_pending = false;
  Post(name);
  environment_.free_unused();
}

bool ModelCatalog::IsAsked(const Name& name) {
  return !name.is_unloaded || std::ranges::any_of(name.versions, [](const auto& entry) {
    return entry.second.is_wanted() == true;
  });
}

void ModelCatalog::EnsureServing(ServedVersion& version, Occasion occasion) {
  if (!version.NeedsLoading(occasion) || !environment_.yield()) {
    return;
  }
  const absl::Status status = ContainVoid(kLoadingWork, [&] {
    version.SetLoading();
    Post(version.state().name);
    // Frees the version that an earlier load has replaced, so that a folder is never in memory
    // twice.
    environment_.free_unused();
    version.Load();
  });
  if (version.state().phase == ModelPhase::kLoading) {
    RunLogged(kLoadingWork, [&] { version.SetFailed(status); });
  }
  Post(version.state().name);
}

absl::Status ModelCatalog::Load(const std::string& name, std::optional<int64_t> version) {
  RETURN_IF_ERROR(CheckName(name));
  ASSIGN_OR_RETURN(const FoundModels found, Scan());
  const auto at = found.find(name);
  if (at == found.end()) {
    return UnknownName(folder_.path, KeysOf(found), name);
  }
  if (version.has_value() && at->second.status.ok() && !at->second.versions.contains(*version)) {
    return UnknownVersion(name, KeysOf(at->second.versions), *version);
  }
  last_found_.insert_or_assign(name, at->second);
  Update(name, at->second);
  Name& known = names_.at(name);
  known.is_unloaded = known.is_unloaded && version.has_value();
  for (auto& [number, item] : known.versions) {
    if (!version.has_value()) {
      item.set_wanted(std::nullopt);
    } else if (number == *version) {
      item.set_wanted(true);
    }
  }
  const absl::Status of_name = at->second.status;
  Settle(name, Occasion::kRequest);
  RETURN_IF_ERROR(FailureOf(known, version));
  return AsFailure(of_name);  // of an unloaded name, which Settle does not try
}

absl::Status ModelCatalog::FailureOf(const Name& name, std::optional<int64_t> version) {
  for (auto item = name.versions.rbegin(); item != name.versions.rend(); ++item) {
    const ModelState& state = item->second.state();
    const bool is_meant =
        !version.has_value() || state.version == *version || state.version == kWholeName;
    if (is_meant && state.phase == ModelPhase::kFailed) {
      return AsFailure(state.error);
    }
  }
  return absl::OkStatus();
}

absl::Status ModelCatalog::Unload(const std::string& name, std::optional<int64_t> version) {
  RETURN_IF_ERROR(CheckName(name));
  const auto known = names_.find(name);
  if (known == names_.end()) {
    return UnknownName(folder_.path, KeysOf(names_), name);
  }
  std::map<int64_t, ServedVersion>& versions = known->second.versions;
  if (version.has_value() && !versions.contains(*version)) {
    return UnknownVersion(name, KeysOf(versions), *version);
  }
  known->second.is_unloaded = known->second.is_unloaded || !version.has_value();
  for (auto& [number, item] : versions) {
    if (!version.has_value() || number == *version) {
      item.set_wanted(version.has_value() ? std::optional<bool>(false) : std::nullopt);
      item.Withdraw();
    }
  }
  Post(name);
  return absl::OkStatus();
}

absl::StatusOr<VersionToLoad> ModelCatalog::SourceOf(const Model& model) const {
  RETURN_IF_ERROR(CheckName(model.name()));
  const auto name = names_.find(model.name());
  if (name == names_.end() || !name->second.versions.contains(model.info().version)) {
    return absl::AbortedError(absl::StrCat("model ", model.name(), ": it has just been unloaded"));
  }
  return name->second.versions.at(model.info().version).Source();
}

void ModelCatalog::Post(const std::string& name) {
  const Name& known = names_.at(name);
  const auto post = [&] {
    PostedStates::Name posted{.is_pending = known.is_pending, .is_unloaded = known.is_unloaded};
    for (const auto& [number, version] : known.versions) {
      posted.versions.push_back({version.state(), version.model()});
    }
    posted_.Post(name, posted);
  };
  bool is_posted = RunLogged("posting the states of a model", post);
  while (!is_posted && environment_.yield()) {  // the first failure alone is logged
    std::this_thread::sleep_for(kPauseBeforePosting);
    is_posted = ContainVoid(kLoadingWork, post).ok();
  }
}

}  // namespace attention
