// The models of a server, by name and version.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/models/model.h"
#include "core/runtime/mutex.h"

namespace attention {

/// The models that requests can name. A model that is replaced or withdrawn lives until its last
/// holder releases it. Thread-safe.
class ModelRepository {
 public:
  /// Adds a model with generated weights. ALREADY_EXISTS when the name is in use; otherwise the
  /// errors of CreateSeeded.
  absl::Status AddSeeded(const SeededModelSpec& spec);

  /// Adds the model, or replaces the model with the same name and version.
  void Publish(std::shared_ptr<const Model> model);
  /// Removes a model; returns false when there was none.
  bool Withdraw(const std::string& name, int64_t version);

  /// Returns a model, or null when there is none. Without a version it returns the highest version.
  std::shared_ptr<const Model> Find(const std::string& name,
                                    std::optional<int64_t> version = std::nullopt) const;
  /// Why no version of a model is here.
  enum class Absence {
    kUnknown,
    kLoading,    // clients may retry
    kNotServed,  // its folder is there, but it failed to load, or was unloaded
  };
  /// Sets why no model of this name is here, for errors. The name may be that of a model.
  void SetAbsence(const std::string& name, Absence absence);
  Absence AbsenceOf(const std::string& name) const;

  /// Returns all models in order of name, then version.
  std::vector<std::shared_ptr<const Model>> List() const;

 private:
  mutable Mutex mutex_;
  /// By name and version.
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<const Model>> models_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Absence> absences_ ABSL_GUARDED_BY(mutex_);  // none: kUnknown
};

}  // namespace attention
