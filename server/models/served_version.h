// One version of a model in a folder: loaded when it has changed, served, withdrawn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/models/model_folder.h"
#include "core/models/model_repository.h"
#include "core/runtime/yield.h"
#include "server/models/load_version.h"
#include "server/models/model_state.h"

namespace attention {

/// The reason why the folder is checked.
enum class Occasion {
  kRequest,
  /// Skips files that have changed since the check before, which may be half written, and files
  /// that failed before.
  kPoll,
};

/// The environment of versions, which outlives them.
struct ServingEnvironment {
  ModelRepository& repository;
  LoadFunction load;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// A function that is called before each load and returns whether to continue.
  Yield yield;
  /// Makes the owner of a model that is to serve, and so decides which thread destroys it.
  std::function<std::shared_ptr<const Model>(std::unique_ptr<Model>)> share;
  /// The loader calls this before each load and when a name is settled. It destroys the unused ones
  /// of the models that `share` was given.
  std::function<void()> free_unused = [] {};
};

/// A version; used by one thread.
class ServedVersion {
 public:
  /// Makes a version. `number` 0 stands for errors of the name as a whole.
  ServedVersion(const ServingEnvironment& environment, const std::string& name, int64_t number);

  const ModelState& state() const { return state_; }
  /// Returns the model that serves, or served last.
  const std::weak_ptr<const Model>& model() const { return model_; }

  /// Returns whether a request asked to load or to unload the version; empty: the policy decides.
  std::optional<bool> is_wanted() const { return is_wanted_; }
  void set_wanted(std::optional<bool> is_wanted) { is_wanted_ = is_wanted; }

  void set_found(const FoundVersion& found) {
    found_ = found;
    is_gone_ = false;
  }
  /// Returns whether the folder no longer has the version, which serves until others are settled.
  bool is_gone() const { return is_gone_; }
  void SetGone() { is_gone_ = true; }
  /// Returns whether the files that were found neither serve nor are known to fail.
  bool NeedsLoading(Occasion occasion) const;
  /// Makes the state "loading" for those who ask meanwhile. Load follows.
  void SetLoading() { state_.phase = ModelPhase::kLoading; }
  /// Loads the files that were found, and serves them. If that fails, the model that served before
  /// continues. Both are logged.
  void Load();
  /// Makes the state "failed", before anything can throw, and logs the error. The files are not
  /// known to fail.
  void SetFailed(const absl::Status& error);
  void Withdraw();

  /// Returns what to read for another copy of the serving model; ABORTED when the files have
  /// changed.
  absl::StatusOr<VersionToLoad> Source() const;

 private:
  void Publish(ReadyModel ready);

  const ServingEnvironment& environment_;
  ModelState state_;
  FoundVersion found_;
  /// The fingerprints of the files that serve, and of those that failed last.
  std::string loaded_fingerprint_;
  std::string failed_fingerprint_;
  std::weak_ptr<const Model> model_;
  std::optional<bool> is_wanted_;
  bool is_gone_ = false;
};

}  // namespace attention
