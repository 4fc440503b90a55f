// Who calls, and what that allows. No gRPC.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/scheduling/request_class.h"

namespace attention {

/// What attention over the caller's own query, key and value, without a model, is called.
inline constexpr char kBareAttention[] = "attention";

struct Caller {
  /// Empty: not known; the call's metadata may say.
  std::string tenant = {};
  /// Whose shares its requests and sessions count in, to be read: the tenant where somebody vouches
  /// for it, or else all callers of a machine, whatever they call themselves.
  std::string account = {};
  bool has_admin_right = false;
  /// Patterns of the models that may be used, as in file names: "bert-*". Null: all.
  std::shared_ptr<const std::vector<std::string>> models = nullptr;
  /// A higher one that a call asks for becomes this. Only a token, or a listener of administrators
  /// that asks for none, says more.
  Priority max_priority = Priority::kNormal;

  bool MayUse(const std::string& model) const;
  /// PERMISSION_DENIED, whether or not there is such a model. Empty: kBareAttention.
  absl::Status CheckModel(const std::string& model) const;
  /// `status` of a search for a model, without the names of models that may not be used.
  absl::Status Conceal(const absl::Status& status) const;
  Priority Cap(Priority priority) const { return std::max(priority, max_priority); }
};

}  // namespace attention
