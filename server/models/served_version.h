// One version of a model in a folder: loaded when it changed, served, withdrawn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/models/model_folder.h"
#include "core/models/model_repository.h"
#include "server/models/load_version.h"
#include "server/models/model_state.h"

namespace attention {

/// Why the folder is looked at.
enum class Occasion {
  kRequest,
  /// Passes over files that have not stayed the same since the look before, which may be half
  /// written, and over those that failed before.
  kPoll,
};

/// What versions are loaded and served with; outlives them.
struct ServingEnvironment {
  ModelRepository& repository;
  LoadFunction load;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// Asked before each load whether to go on.
  std::function<bool()> go_on;
  /// Makes the owner of a model that is to serve, and so decides where it is destroyed.
  std::function<std::shared_ptr<const Model>(std::unique_ptr<Model>)> share;
  /// Called before each load and when a name is settled: destroys the models that `share` was given
  /// and nobody uses any more.
  std::function<void()> free_unused = [] {};
};

/// One thread.
class ServedVersion {
 public:
  /// `number` 0 stands for what is wrong with the name as a whole.
  ServedVersion(const ServingEnvironment& environment, const std::string& name, int64_t number);

  const ModelState& state() const { return state_; }
  /// What serves, or served last.
  const std::weak_ptr<const Model>& model() const { return model_; }

  /// By request; empty: as the policy says.
  std::optional<bool> is_wanted() const { return is_wanted_; }
  void set_wanted(std::optional<bool> is_wanted) { is_wanted_ = is_wanted; }

  void set_found(const FoundVersion& found) { found_ = found; }
  /// Whether it does not serve as it was found, nor is known to fail so.
  bool NeedsLoading(Occasion occasion) const;
  /// Before Load, for those who ask meanwhile.
  void SetLoading() { state_.phase = ModelPhase::kLoading; }
  /// Loads what was found, and serves it; when it fails, what served before goes on. Either is
  /// logged.
  void Load();
  void Withdraw();

  /// What to read for another copy of what serves; ABORTED when the files are others by now.
  absl::StatusOr<VersionToLoad> Source() const;

 private:
  void Publish(ReadyModel ready);
  void SetFailed(const absl::Status& error);

  const ServingEnvironment& environment_;
  ModelState state_;
  FoundVersion found_;
  /// Fingerprints of what serves, and of what failed last.
  std::string loaded_fingerprint_;
  std::string failed_fingerprint_;
  std::weak_ptr<const Model> model_;
  std::optional<bool> is_wanted_;
};

}  // namespace attention
