// Manual pages (man(7) macros), made from a program's help.
#pragma once

#include <string>
#include <vector>

#include "client/manual/command_help.h"

namespace attention {

/// The name of a command's page: "attend-run" for "attend run".
std::string PageName(const CommandHelp& command);

struct ManPageOptions {
  int section = 1;
  /// The program and its version: "attend 1.2".
  std::string source;
  /// Other pages: "attend-run(1)".
  std::vector<std::string> see_also = {};
};

/// The page of `command` as roff. It lists the command's subcommands with their summaries. A
/// paragraph of the footer such as "Examples:" with indented lines below becomes a section, and
/// "Exit codes: ..." becomes EXIT STATUS.
std::string ManPage(const CommandHelp& command, const ManPageOptions& options);

}  // namespace attention
