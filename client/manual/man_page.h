// Manual pages (man(7) macros) of a program's help.
#pragma once

#include <string>
#include <vector>

#include "client/manual/command_help.h"

namespace attention {

/// "attend-run": what the page of "attend run" is called.
std::string PageName(const CommandHelp& command);

struct ManPageOptions {
  int section = 1;
  /// "attend 1.2".
  std::string source;
  /// Other pages: "attend-run(1)".
  std::vector<std::string> see_also = {};
};

/// Roff. Commands of the program are listed with their summaries; paragraphs of the footer such as
/// "Examples:" with indented lines below become sections, and "Exit codes: ..." EXIT STATUS.
std::string ManPage(const CommandHelp& command, const ManPageOptions& options);

}  // namespace attention
