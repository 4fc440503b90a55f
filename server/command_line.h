// The command line of attend-server: a parser of its flags, and the options that flags, environment
// and file give together.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/configuration/settings.h"
#include "server/server_options.h"

namespace attention {

/// A parser that knows every flag. It checks no value, since values can come from the environment
/// and from a file too.
class CommandLine {
 public:
  /// The values of the flags that concern the configuration as a whole.
  struct Actions {
    std::string config;
    bool check = false;
    bool print = false;
    bool print_schema = false;
    std::string token_for;
  };

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  const CLI::App& app() const { return app_; }
  /// Returns the actions that the parsed flags ask for.
  const Actions& actions() const { return actions_; }

 private:
  Actions actions_;
  CLI::App app_;
};

/// The result of parsing a command line.
struct ParsedCommandLine {
  /// If not empty, the program prints this text and exits with success (--help, --version,
  /// --print-config).
  std::string text;
  /// If true, the program only checks whether a server would start with these options
  /// (--check-config).
  bool is_check = false;
  ServerOptions options;
  /// Warnings for the log about environment variables that look like options but are not.
  std::vector<std::string> warnings;
};

/// Parses the arguments without the program's name. A flag overrides the environment, which
/// overrides the file (--config), which overrides the defaults. INVALID_ARGUMENT names the flag,
/// the variable, or file and key, what was expected and what was found; NOT_FOUND: the file does
/// not exist.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const Environment& environment = {});

}  // namespace attention
