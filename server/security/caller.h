// A caller and its rights. No gRPC.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/scheduling/request_class.h"

namespace attention {

/// The name of attention over the caller's own query, key and value, without a model.
inline constexpr char kWithoutModel[] = "attention";

struct Caller {
  /// The tenant. Empty: not known; the call's metadata may name one.
  std::string tenant = {};
  /// The account in whose shares its requests and sessions count, as a readable text: the tenant if
  /// it is proven, or else the host of the caller.
  std::string account = {};
  bool has_admin_right = false;
  /// The patterns of the models that the caller may use, as in file names: "bert-*". Null: all
  /// models.
  std::shared_ptr<const std::vector<std::string>> models = nullptr;
  /// The highest priority of its calls; a higher one is lowered to it. Only a token, or a listener
  /// of administrators that needs no token, allows more than the default.
  Priority max_priority = Priority::kNormal;

  bool MayUse(const std::string& model) const;
  /// Returns PERMISSION_DENIED for a model that the caller may not use, whether or not it exists.
  /// An empty name means kWithoutModel.
  absl::Status CheckModel(const std::string& model) const;
  /// Returns the `status` of a search for a model, without the names of models that the caller may
  /// not use.
  absl::Status HideOtherModels(const absl::Status& status) const;
  Priority LimitPriority(Priority priority) const { return std::max(priority, max_priority); }
};

}  // namespace attention
