// The models of a folder: which are there, which are wanted, which serve.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/runtime/mutex.h"
#include "server/models/served_version.h"
#include "server/models/version_policy.h"
#include "server/observability/health.h"

namespace attention {

struct ModelFolder {
  std::string path = {};
  VersionPolicies versions = {};
  /// Names of the server's own models, which a folder cannot have.
  std::set<std::string> reserved_names = {};
};

/// Keeps a repository as the folder and the requests say. What changed is loaded beside what
/// serves, and takes its place when it is ready; when it cannot be loaded, the old goes on serving.
///
/// All but States is for one thread. Each failure is logged once for the same files.
class ModelCatalog {
 public:
  ModelCatalog(const ModelFolder& folder, const ServingEnvironment& environment,
               HealthRegistry& health);

  /// Makes the names in the folder known, to States and health, before any of them is loaded.
  /// Called once: health says kAllModels when each of these has served, or is gone or unloaded on
  /// request. The error is that of a folder that cannot be read.
  absl::Status Discover();

  /// Makes everything as the folder is now; what is wrong with a model is in its state. The error
  /// is Discover's, and changes nothing.
  absl::Status Refresh(Occasion occasion);

  /// With a version: serves it, whatever the policy says. Without: serves `name` by the policy
  /// again. What failed is tried once more. NOT_FOUND for a name or version that the folder does
  /// not have; FAILED_PRECONDITION for a name that is not the folder's to serve; otherwise the
  /// loader's error.
  absl::Status Load(const std::string& name, std::optional<int64_t> version);

  /// Stops serving a version, or all of `name`, until Load. Errors as Load's.
  absl::Status Unload(const std::string& name, std::optional<int64_t> version);

  /// What to read for another copy of a model that serves. FAILED_PRECONDITION for one that is not
  /// the folder's; ABORTED when its files are others by now.
  absl::StatusOr<VersionToLoad> SourceOf(const Model& model) const;

  /// In order of name, then version. Thread-safe.
  std::vector<ModelState> States() const;

 private:
  struct Name {
    bool is_unloaded = false;
    /// Found new or changed, and not tried yet.
    bool is_pending = false;
    std::map<int64_t, ServedVersion> versions = {};
  };
  struct Posted {
    ModelState state;
    std::weak_ptr<const Model> model;
  };

  absl::Status CheckName(const std::string& name) const;
  absl::StatusOr<FoundModels> Scan() const;
  /// Takes over what was found of a name; one that cannot be read keeps the versions it has.
  void Update(const std::string& name, const FoundModel& found);
  /// Loads and withdraws versions until the name is as wanted.
  void Settle(const std::string& name, Occasion occasion);
  void EnsureServing(ServedVersion& version, Occasion occasion);
  /// The highest version's, or that of `version`.
  static absl::Status FailureOf(const Name& name, std::optional<int64_t> version);
  /// Makes States, health and the repository say what is so.
  void Post(const std::string& name);
  void AwaitNoLonger(const std::string& name);

  const ModelFolder folder_;
  const ServingEnvironment environment_;
  HealthRegistry& health_;

  // Of the one thread.
  FoundModels last_found_;
  std::map<std::string, Name> names_;
  /// Found at the start, and not served yet.
  std::set<std::string> awaited_;

  mutable Mutex mutex_;
  std::map<std::string, std::vector<Posted>> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
