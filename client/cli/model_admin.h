// `attend models --states | --load | --unload | --reload | --verify`: manages the folder of models
// of a server.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "client/cli/flags/server_flags.h"

namespace attention {

struct ModelAdminFlags {
  bool states = false;
  bool reload = false;
  /// NAME or NAME:VERSION; empty: not given.
  std::string load;
  std::string unload;
  /// The model to verify; empty: all models.
  std::optional<std::string> verify;

  bool is_given() const {
    return states || reload || verify.has_value() || !load.empty() || !unload.empty();
  }
};

void AddModelAdminFlags(CLI::App& command, ModelAdminFlags& flags);

/// Does what the flags ask for and prints the result. Returns the exit code. REQUIRES:
/// flags.is_given().
int RunModelAdmin(const ServerFlags& server, const ModelAdminFlags& flags, bool as_json);

}  // namespace attention
