// `attend`: the command line client.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // see server/main.cc
  // Errors have the messages of gRPC; its own log would repeat them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  CLI::App app("Talks to an Attend server: multi-head attention over gRPC.", "attend");
  app.formatter(std::make_shared<attention::HelpFormatter>());
  app.set_version_flag("--version", ATTEND_VERSION);
  app.failure_message(attention::UsageError);
  int exit_code = 0;
  attention::AddRunCommand(app, exit_code);
  attention::AddGenerateCommand(app, exit_code);
  attention::AddModelsCommand(app, exit_code);
  attention::AddHealthCommand(app, exit_code);
  attention::AddTopCommand(app, exit_code);
  attention::AddBenchCommand(app, exit_code);
  attention::AddPlotCommand(app, exit_code);
  attention::AddReportCommand(app, exit_code);
  attention::AddLogLevelCommand(app, exit_code);
  attention::AddCompletionCommand(app);
  // Set last, because commands inherit a footer that is set before they are added.
  app.footer(
      "Start here:\n"
      "  attend models                                 what the server offers\n"
      "  attend run --random 2x5x512 --verify          one request, checked in double precision\n"
      "  attend plot --random-tokens 1x12              which token attends to which\n"
      "  attend bench --concurrency 4                  how fast it is\n"
      "`attend COMMAND --help` says more.");
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "help") {  // attend help COMMAND
      words.erase(words.begin());
      const std::vector<CLI::App*> commands = app.get_subcommands(nullptr);
      const auto is_named = [&words](const CLI::App* command) {
        return command->check_name(words.front());
      };
      if (words.empty() || std::any_of(commands.begin(), commands.end(), is_named)) {
        words.emplace_back("--help");
      }
    }
    attention::RefuseEmptyValues(words);
    app.parse(std::vector(words.rbegin(), words.rend()));  // which takes them last first
  } catch (const CLI::ParseError& error) {
    // Help and version end parsing too, with code 0.
    return app.exit(error) == 0 ? 0 : attention::kExitUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "attend: RESOURCE_EXHAUSTED: out of memory\n";
    return attention::kExitFailed;
  }
  if (app.get_subcommands().empty()) {
    std::cerr << app.help();
    return attention::kExitUsage;
  }
  if (!std::cout.flush() && exit_code == 0) {
    std::cerr << "attend: UNAVAILABLE: standard output cannot be written\n";
    exit_code = attention::kExitFailed;
  }
  return exit_code;
}
