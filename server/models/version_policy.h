// The policies that choose which versions of the models in a folder are served.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"

namespace attention {

struct VersionPolicy {
  enum class Kind {
    kLatest,    // the highest version that can be loaded
    kAll,       // every version there is
    kSpecific,  // `versions`
  };
  Kind kind = Kind::kLatest;
  /// Of kSpecific alone.
  std::set<int64_t> versions = {};

  /// Returns whether the version may be served. kLatest allows any: the catalog then chooses the
  /// highest that can be loaded.
  bool Includes(int64_t version) const {
    return kind != Kind::kSpecific || versions.contains(version);
  }
};

struct VersionPolicies {
  /// The policy of models that are not named; empty: kLatest.
  std::optional<VersionPolicy> others = {};
  std::map<std::string, VersionPolicy> by_name = {};

  const VersionPolicy& Of(const std::string& name) const;
};

/// Adds a policy: "latest" or "all" for models that are not named; "NAME=latest", "NAME=all" or
/// "NAME=1,3" for one model. INVALID_ARGUMENT for other texts, and for a second policy for the same
/// models.
absl::Status AddVersionPolicy(const std::string& text, VersionPolicies& policies);

}  // namespace attention
