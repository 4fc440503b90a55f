#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/ascii.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

struct LogLevelFlags {
  ServerFlags server;
  /// Empty: unchanged.
  std::string level;
  std::string requests;
};

const std::map<std::string, v1::Logging::Level> kLevels = {{"debug", v1::Logging::DEBUG},
                                                           {"info", v1::Logging::INFO},
                                                           {"warning", v1::Logging::WARNING},
                                                           {"error", v1::Logging::ERROR}};
const std::map<std::string, v1::Logging::Requests> kRequests = {
    {"none", v1::Logging::NONE}, {"failed", v1::Logging::FAILED}, {"all", v1::Logging::ALL}};

absl::Status ShowLogging(const LogLevelFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  v1::SetLoggingRequest request;
  if (!flags.level.empty()) {
    request.set_level(kLevels.at(flags.level));
  }
  if (!flags.requests.empty()) {
    request.set_requests(kRequests.at(flags.requests));
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
      "Examples:\n"
      "  attend log-level\n"
      "  attend log-level debug --requests all");
  AddServerFlags(*command, flags->server);
  HelpGroup group(*command);
  group.Choice("LEVEL", flags->level, "debug|info|warning|error", "Minimum level");
  group.Choice("--requests", flags->requests, "none|failed|all", "Which requests are logged");
  command->callback([flags, &exit_code] { exit_code = ExitCodeOf(ShowLogging(*flags)); });
}

}  // namespace attention
