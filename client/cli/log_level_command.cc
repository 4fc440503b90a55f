#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

struct LogLevelFlags {
  ClientOptions server;
  /// Empty: unchanged.
  std::string level;
  std::string requests;
};

absl::Status ShowLogging(const LogLevelFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  v1::SetLoggingRequest request;
  v1::Logging::Level level;
  if (v1::Logging::Level_Parse(absl::AsciiStrToUpper(flags.level), &level)) {
    request.set_level(level);
  }
  v1::Logging::Requests requests;
  if (v1::Logging::Requests_Parse(absl::AsciiStrToUpper(flags.requests), &requests)) {
    request.set_requests(requests);
  }
  ASSIGN_OR_RETURN(const v1::Logging now, client->SetLogging(request));
  std::cout << "level " << absl::AsciiStrToLower(v1::Logging::Level_Name(now.level()))
            << ", requests " << absl::AsciiStrToLower(v1::Logging::Requests_Name(now.requests()))
            << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddLogLevelCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<LogLevelFlags>();
  CLI::App* const command =
      app.add_subcommand("log-level", "Show or change what the running server logs");
  command->footer(
      "Examples, with the server's admin listener:\n"
      "  attend log-level --server 127.0.0.1:8003\n"
      "  attend log-level debug --requests all --server 127.0.0.1:8003\n"
      "\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage.");
  AddServerFlags(*command, flags->server);
  HelpGroup group(*command);
  group.Choice("LEVEL", flags->level, "debug|info|warning|error", "Minimum level");
  group.Choice("--requests", flags->requests, "none|failed|all", "Which requests are logged");
  command->callback([flags, &exit_code] { exit_code = ExitCodeOf(ShowLogging(*flags)); });
}

}  // namespace attention
