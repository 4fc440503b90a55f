// The models of a server, by name and version.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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
  /// Sets whether a model of this name is being loaded, so that clients may retry.
  void SetExpected(const std::string& name, bool is_expected);
  bool IsExpected(const std::string& name) const;

  /// Returns all models in order of name, then version.
  std::vector<std::shared_ptr<const Model>> List() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::map<int64_t, std::shared_ptr<const Model>>> models_
      ABSL_GUARDED_BY(mutex_);
  std::set<std::string> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
