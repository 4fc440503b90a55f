// Scripts that complete a program's command line in a shell: commands, flags, and values as HintOf
// has them. The names of models come from the server that the command line names, by
// `PROGRAM models --names`.
#pragma once

#include <string>

#include "client/manual/command_help.h"

namespace attention {

/// A script to be sourced or put into a folder of completions; it needs no package besides bash.
std::string BashCompletion(const CommandHelp& program);

/// A file `_PROGRAM` for a folder of fpath; it can also be sourced after compinit.
std::string ZshCompletion(const CommandHelp& program);

}  // namespace attention
