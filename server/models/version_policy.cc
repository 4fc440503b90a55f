#include "server/models/version_policy.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/models/model_folder.h"

namespace attention {
namespace {

absl::Status BadPolicy(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected latest, all, NAME=latest, NAME=all or NAME=1,3, found '", text, "'"));
}

bool ParseWhich(const std::string& text, VersionPolicy& policy) {
  if (text == "latest" || text == "all") {
    policy.kind = text == "all" ? VersionPolicy::Kind::kAll : VersionPolicy::Kind::kLatest;
    return true;
  }
  policy.kind = VersionPolicy::Kind::kSpecific;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    int64_t version = 0;
    if (!ParseVersion(item, version)) {
      return false;
    }
    policy.versions.insert(version);
  }
  return true;
}

}  // namespace

const VersionPolicy& VersionPolicies::Of(const std::string& name) const {
  static const VersionPolicy latest;
  const auto found = by_name.find(name);
  if (found != by_name.end()) {
    return found->second;
  }
  return others.has_value() ? *others : latest;
}

absl::Status AddVersionPolicy(const std::string& text, VersionPolicies& policies) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const std::string name = parts.size() == 2 ? parts.front() : "";
  VersionPolicy policy;
  if (!ParseWhich(parts.back(), policy) || (parts.size() == 2 && name.empty()) ||
      (parts.size() == 1 && policy.kind == VersionPolicy::Kind::kSpecific)) {
    return BadPolicy(text);
  }
  const bool is_second =
      name.empty() ? policies.others.has_value() : policies.by_name.contains(name);
  if (is_second) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one policy for ", name.empty() ? "models that are not named" : name,
                     ", found a second: '", text, "'"));
  }
  (name.empty() ? policies.others.emplace() : policies.by_name[name]) = policy;
  return absl::OkStatus();
}

}  // namespace attention
