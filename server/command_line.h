// The flags of attend-server, as its parser, its manual page and its completions have them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace attention {

/// A parser that knows every flag; it checks no value, since values can come from elsewhere too.
class CommandLine {
 public:
  /// The flags that concern the configuration as a whole.
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
  /// What parsing has found.
  const Actions& actions() const { return actions_; }

 private:
  Actions actions_;
  CLI::App app_;
};

}  // namespace attention
