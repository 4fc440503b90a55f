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

/// What requests find. A model that is replaced or withdrawn lives on as long as somebody holds it.
/// Thread-safe.
class ModelRepository {
 public:
  /// ALREADY_EXISTS for a name taken; errors of CreateSeeded.
  absl::Status AddSeeded(const SeededModelSpec& spec);

  /// Puts the model in, in the place of the one with its name and version, if there is one.
  void Publish(std::shared_ptr<const Model> model);
  /// False when there was none.
  bool Withdraw(const std::string& name, int64_t version);

  /// Null when there is none; without a version, the highest.
  std::shared_ptr<const Model> Find(const std::string& name,
                                    std::optional<int64_t> version = std::nullopt) const;
  /// Whether a model of this name is on its way: it may be asked for again.
  void SetExpected(const std::string& name, bool is_expected);
  bool IsExpected(const std::string& name) const;

  /// In order of name, then version.
  std::vector<std::shared_ptr<const Model>> List() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::map<int64_t, std::shared_ptr<const Model>>> models_
      ABSL_GUARDED_BY(mutex_);
  std::set<std::string> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
