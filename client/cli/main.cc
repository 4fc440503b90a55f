// `attend`: the command line client.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help.h"
#include "core/runtime/contain.h"

namespace attention {
namespace {

void AddCommands(CLI::App& app, int& exit_code) {
  AddRunCommand(app, exit_code);
  AddGenerateCommand(app, exit_code);
  AddModelsCommand(app, exit_code);
  AddHealthCommand(app, exit_code);
  AddTopCommand(app, exit_code);
  AddBenchCommand(app, exit_code);
  AddPlotCommand(app, exit_code);
  AddReportCommand(app, exit_code);
  AddLogLevelCommand(app, exit_code);
  AddCompletionCommand(app);
  for (CLI::App* const command : app.get_subcommands(nullptr)) {
    command->group("Commands");
  }
  // Set last, because commands inherit a footer that is set before they are added.
  app.footer(
      "Start here:\n"
      "  attend models                                 what the server offers\n"
      "  attend run --random 2x5x512 --verify          one request, checked in double precision\n"
      "  attend plot --random-tokens 1x12              which token attends to which\n"
      "  attend bench --concurrency 4                  how fast it is\n"
      "`attend COMMAND --help` says more.");
}

// Writes `help COMMAND` as `COMMAND --help`.
void ReplaceHelp(CLI::App& app, std::vector<std::string>& words) {
  if (words.empty() || words.front() != "help") {
    return;
  }
  words.erase(words.begin());
  const std::vector<CLI::App*> commands = app.get_subcommands(nullptr);
  const auto is_named = [&words](const CLI::App* command) {
    return command->check_name(words.front());
  };
  if (words.empty() || std::any_of(commands.begin(), commands.end(), is_named)) {
    words.emplace_back("--help");
  }
}

// Returns `exit_code`, or an error if what was printed cannot be written.
int FlushOutput(int exit_code) {
  if (!std::cout.flush() && exit_code == 0) {
    std::cerr << "attend: UNAVAILABLE: standard output cannot be written\n";
    return kExitFailed;
  }
  return exit_code;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // see server/main.cc
  // Errors have the messages of gRPC; its own log would repeat them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  CLI::App app("Talks to an Attend server: multi-head attention over gRPC.", "attend");
  app.formatter(std::make_shared<attention::HelpFormatter>());
  app.set_version_flag("--version", "attend " ATTEND_VERSION);
  app.failure_message(attention::UsageError);
  int exit_code = 0;
  attention::AddCommands(app, exit_code);
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    attention::ReplaceHelp(app, words);
    attention::RefuseEmptyValues(words);
    app.parse(std::vector(words.rbegin(), words.rend()));  // which takes them last first
  } catch (const CLI::ParseError& error) {
    // Help and version end parsing too, with code 0.
    return app.exit(error) == 0 ? attention::FlushOutput(0) : attention::kExitUsage;
  } catch (const std::exception&) {
    std::cerr << "attend: " << attention::StatusOfException("the command") << "\n";
    return attention::kExitFailed;
  }
  if (app.get_subcommands().empty()) {
    std::cerr << app.help();
    return attention::kExitUsage;
  }
  return attention::FlushOutput(exit_code);
}
