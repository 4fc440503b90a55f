// The models of a folder: which exist, which are requested, which serve.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/health.h"
#include "server/models/posted_states.h"
#include "server/models/served_folder.h"
#include "server/models/served_version.h"

namespace attention {

/// Keeps a repository in agreement with a folder and with requests. A changed version is loaded
/// while the old one serves, and replaces it when it is ready; if it cannot be loaded, the old one
/// continues to serve.
///
/// All functions except States are for one thread. Each failure is logged once for the same files.
class ModelCatalog {
 public:
  ModelCatalog(const ModelFolder& folder, const ServingEnvironment& environment,
               HealthRegistry& health);

  /// Makes the names in the folder known to States and to health, before any of them is loaded.
  /// REQUIRES: it was not called before. The health of kAllModels is SERVING when each of these, or
  /// each required name, has served or was unloaded on request; a name that is not required may
  /// also be gone. Returns an error for a folder that cannot be read.
  absl::Status Discover();

  /// Loads and withdraws versions until each name is as the folder and requests say. Changes
  /// nothing, and returns an error, when the folder cannot be read, or when a poll finds an empty
  /// one on another device, though there were models.
  absl::Status Refresh(Occasion occasion);

  /// Serves `version` of `name` whatever the policy says; without a version, serves `name` by the
  /// policy again. Failed versions are tried once more. NOT_FOUND for a name or version that the
  /// folder does not have; FAILED_PRECONDITION for a name that does not belong to the folder;
  /// otherwise the loader's error.
  absl::Status Load(const std::string& name, std::optional<int64_t> version);

  /// Stops serving a version, or all of `name`, until Load. Returns errors as Load does.
  absl::Status Unload(const std::string& name, std::optional<int64_t> version);

  /// Returns what to read for another copy of a serving model. FAILED_PRECONDITION for a model that
  /// is not of the folder; ABORTED when its files have changed.
  absl::StatusOr<VersionToLoad> SourceOf(const Model& model) const;

  /// Returns PostedStates::List. Thread-safe.
  std::vector<ModelState> States() const { return posted_.List(); }

 private:
  struct Name {
    bool is_unloaded = false;
    /// True for a new or changed version that was not tried yet.
    bool is_pending = false;
    std::map<int64_t, ServedVersion> versions = {};
  };

  absl::Status CheckName(const std::string& name) const;
  absl::StatusOr<FoundModels> Scan() const;
  /// Updates a name with what was found in the folder. A name that cannot be read keeps its
  /// versions.
  void Update(const std::string& name, const FoundModel& found);
  /// Loads and withdraws versions until the name is as wanted.
  void Settle(const std::string& name, Occasion occasion);
  /// Loads the version if it is needed. Whatever is thrown meanwhile, it is loading no longer.
  void EnsureServing(ServedVersion& version, Occasion occasion);
  /// Returns whether some version of the name is to serve: the error of its folder then shows.
  static bool IsAsked(const Name& name);
  /// Returns the failure of the highest version, or of `version`.
  static absl::Status FailureOf(const Name& name, std::optional<int64_t> version);
  /// Updates States, health and the repository; tries until it has the memory.
  void Post(const std::string& name);

  const ModelFolder folder_;
  const ServingEnvironment environment_;
  PostedStates posted_;

  // Used by the one thread only.
  FoundModels last_found_;
  uint64_t device_ = 0;  // on which the folder lay
  std::map<std::string, Name> names_;
};

}  // namespace attention
