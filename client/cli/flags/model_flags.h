// The flags that say which part of a model runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/flags/help_group.h"
#include "client/lib/attend_request.h"

namespace attention {

struct ModelFlags {
  std::optional<int64_t> layer;
  std::optional<int64_t> version;
  v1::ModelOutput output = v1::LAST_HIDDEN_STATES;
  std::vector<int64_t> weights_layers, weights_heads;

  /// Returns whether a flag is given that only fits a run of the whole stack.
  bool has_stack_flags() const {
    return output != v1::LAST_HIDDEN_STATES || !weights_layers.empty() || !weights_heads.empty();
  }
  bool empty() const { return !layer.has_value() && !version.has_value() && !has_stack_flags(); }
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddModelFlags(CLI::App& command, ModelFlags& flags);

/// Adds --cache-dtype, for sessions.
CLI::Option* AddCacheDtypeFlag(HelpGroup& group, v1::DataType& cache_dtype);

/// Returns INVALID_ARGUMENT for flags that are valid alone and cannot be combined.
absl::Status CheckModelFlags(const ModelFlags& flags);

/// Writes the flags to `request`. REQUIRES: CheckModelFlags is OK.
void ChooseRun(const ModelFlags& flags, AttendRequest& request);

}  // namespace attention
