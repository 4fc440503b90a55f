// The flags that say which part of a model runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/lib/attend_request.h"

namespace attention {

struct ModelFlags {
  std::optional<int64_t> layer;
  std::optional<int64_t> version;
  std::string pool;    // mean, cls, or nothing
  std::string logits;  // all, last, or nothing
  std::string weights_layers, weights_heads;

  /// Whether a flag is given that only fits a run of the whole stack.
  bool has_stack_flags() const {
    return !(pool.empty() && logits.empty() && weights_layers.empty() && weights_heads.empty());
  }
  bool empty() const { return !layer.has_value() && !version.has_value() && !has_stack_flags(); }
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddModelFlags(CLI::App& command, ModelFlags& flags);

/// INVALID_ARGUMENT when the flags, each fine alone, do not go together.
absl::Status CheckModelFlags(const ModelFlags& flags);

/// Writes the flags to `request`. REQUIRES: CheckModelFlags is OK.
absl::Status ChooseRun(const ModelFlags& flags, AttendRequest& request);

}  // namespace attention
