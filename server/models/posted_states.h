// What others see of the models of a folder: their states, their health, why one is absent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/models/model_repository.h"
#include "core/runtime/mutex.h"
#include "server/health.h"
#include "server/models/model_state.h"
#include "server/models/served_folder.h"

namespace attention {

/// The version that stands for errors of a name as a whole.
inline constexpr int64_t kWholeName = 0;

/// The states that the one thread of a ModelCatalog posts and all threads read. It tells the
/// repository why a name has no model, and health which names serve.
class PostedStates {
 public:
  /// A version; the model is the one that serves, or served last.
  struct Version {
    ModelState state;
    std::weak_ptr<const Model> model;
  };
  /// All that is posted of a name.
  struct Name {
    std::vector<Version> versions;
    /// Whether requests for the name may soon be answered: a version was not tried yet.
    bool is_pending = false;
    /// Whether it was unloaded on request.
    bool is_unloaded = false;
  };

  /// Borrows all. `folder` says which names are reserved and which are required.
  PostedStates(const ModelFolder& folder, ModelRepository& repository, HealthRegistry& health)
      : folder_(folder), repository_(repository), health_(health) {}

  /// Begins to wait for names, before which the health of kAllModels is NOT_SERVING: each of
  /// `found`, or each required name, must have served or be unloaded; a name that is not required
  /// may also be gone.
  void Await(std::set<std::string> found);
  /// Says that each model found at the start was tried. Until then, with required names, the health
  /// of kAllModels is NOT_SERVING.
  void SetAllTried();
  /// Replaces what is known of a name. Without versions the name is gone.
  void Post(const std::string& name, const Name& posted);

  /// Returns the states in the order of name, then version. A required name that has never served
  /// and that the folder does not have has a state, too: failed, NOT_FOUND. Thread-safe.
  std::vector<ModelState> List() const;

 private:
  void StopAwaiting(const std::string& name);
  /// Updates the health of kAllModels, which stays SERVING once it is.
  void UpdateAllModels();

  const ModelFolder& folder_;
  ModelRepository& repository_;
  HealthRegistry& health_;
  bool all_tried_ = false;  // used by the one thread only

  mutable Mutex mutex_;
  /// The names that kAllModels waits for.
  std::set<std::string> awaited_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Version>> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
