#include <iostream>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/server_flags.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

struct HealthFlags {
  ServerFlags server;
  std::string service;
};

absl::Status CheckHealth(const HealthFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  return client->CheckHealth(flags.service);
}

}  // namespace

void AddHealthCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<HealthFlags>();
  flags->server.timeout = "5s";
  CLI::App* const command =
      app.add_subcommand("health", "Exit 0 when the server, or one model, is serving");
  command->footer(
      "Examples:\n"
      "  attend health\n"
      "  attend health --service model/demo --timeout 500ms");
  AddServerFlags(*command, flags->server);
  command
      ->add_option("--service", flags->service,
                   "Empty: the server as a whole; model/NAME; attention.v1.AttentionService")
      ->type_name("NAME");
  command->callback([flags, &exit_code] {
    const absl::Status status = CheckHealth(*flags);
    if (status.ok()) {
      std::cout << "SERVING\n";
    } else {
      exit_code = Fail(status);
    }
  });
}

}  // namespace attention
