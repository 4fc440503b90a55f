// What is said of a command line that does not hold together.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace attention {

/// Names the subcommand, what is wrong, what may have been meant, and where to read more: for
/// CLI::App::failure_message.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

}  // namespace attention
