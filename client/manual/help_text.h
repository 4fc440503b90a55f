// The parts of a help text that CLI11 has laid out: of programs that are not linked here.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/manual/command_help.h"

namespace attention {

/// Of the program `name`. INVALID_ARGUMENT when the text has no line "Usage:", or no flags.
absl::StatusOr<CommandHelp> ReadHelpText(const std::string& name, const std::string& text);

}  // namespace attention
