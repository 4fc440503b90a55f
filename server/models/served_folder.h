// The folder of models that is served, and what of it.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "server/models/version_policy.h"

namespace attention {

struct ModelFolder {
  std::string path = {};
  VersionPolicies versions = {};
  /// The names of the server's own models, which a folder cannot have.
  std::set<std::string> reserved_names = {};
  /// The names that must have served before kAllModels is healthy; all others found at the start
  /// must be loaded or have failed. Null: all that are found at the start must have served.
  std::optional<std::set<std::string>> required_names = {};
};

}  // namespace attention
