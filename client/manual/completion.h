// Scripts that complete a program's command line in a shell: commands, flags and their values. The
// names of models come from the server that the command line names, by `PROGRAM models --names`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attention {

/// A flag's names: "-c", "--concurrency".
std::vector<std::string> NamesOf(const CLI::Option& flag);

/// The names of a program's commands.
std::vector<std::string> CommandNames(const CLI::App& program);

/// A script to be sourced or put into a folder of completions; it needs no package besides bash.
std::string BashCompletion(const CLI::App& program);

/// A file `_PROGRAM` for a folder of fpath; it can also be sourced after compinit.
std::string ZshCompletion(const CLI::App& program);

}  // namespace attention
