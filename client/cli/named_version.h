// A model as it is named on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace attention {

struct NamedVersion {
  std::string name;
  std::optional<int64_t> version = {};
};

/// "NAME" or "NAME:VERSION"; INVALID_ARGUMENT quotes what is neither.
absl::StatusOr<NamedVersion> ParseNamedVersion(const std::string& text);

}  // namespace attention
