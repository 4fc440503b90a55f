// Scripts that complete a program's command line in a shell.
#pragma once

#include <string>

#include "client/manual/command_help.h"

namespace attention {

/// For bash, to be sourced or put into a folder of completions; needs no package besides bash.
/// Completes commands, flags, and values as HintOf has them. Models are asked of the server that
/// the command line names, by `PROGRAM models --names`.
std::string BashCompletion(const CommandHelp& program);

/// For zsh: a file `_PROGRAM` in a folder of fpath, or to be sourced after compinit.
std::string ZshCompletion(const CommandHelp& program);

}  // namespace attention
