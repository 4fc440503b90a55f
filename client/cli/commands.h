// The subcommands of `attend`. Each adds itself to the parser and, when chosen, runs at the end of
// parsing and leaves its exit code: 0 done and agreed, 1 failed or disagreed. Data goes to stdout,
// messages to stderr. Usage errors are CLI::ParseError, the parser's own way.
#pragma once

#include <CLI/CLI.hpp>

namespace attention {

/// Exit codes besides 0.
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
// Of bench alone: a target was missed, and nothing else was wrong; nothing was measured.
inline constexpr int kExitMissed = 3;
inline constexpr int kExitNotMeasured = 4;

void AddRunCommand(CLI::App& app, int& exit_code);
void AddModelsCommand(CLI::App& app, int& exit_code);
void AddHealthCommand(CLI::App& app, int& exit_code);
void AddLogLevelCommand(CLI::App& app, int& exit_code);
void AddBenchCommand(CLI::App& app, int& exit_code);
void AddPlotCommand(CLI::App& app, int& exit_code);
void AddReportCommand(CLI::App& app, int& exit_code);
void AddGenerateCommand(CLI::App& app, int& exit_code);
void AddTopCommand(CLI::App& app, int& exit_code);
/// Prints what the parser `app` knows of the program.
void AddCompletionCommand(CLI::App& app);

}  // namespace attention
