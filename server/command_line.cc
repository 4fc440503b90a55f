#include "server/command_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/configuration/option_table.h"

namespace attention {
namespace {

constexpr char kVersion[] = ATTEND_VERSION;

constexpr char kDescription[] =
    R"(attend-server: multi-head attention as a service (gRPC, attention.v1.AttentionService).

Serves the models of a folder (--models), the built-in model "demo", attention over your own
query, key and value, the same by the Open Inference Protocol v2 (inference.GRPCInferenceService),
health (grpc.health.v1) and reflection. Prints one line "attend-server listening on ADDRESS" per
address on standard output when it listens, and "attend-server admin on ADDRESS"; models are loaded
beside that, and health is SERVING when all are. Logs to standard error. SIGTERM or SIGINT: refuse new requests, finish those under
way, exit 0; a second one: exit at once.)";

constexpr char kExamples[] =
    R"(Every option can also stand in the environment and in a file: --max-queue-wait is
ATTEND_MAX_QUEUE_WAIT, and "max_queue_wait" in the JSON object that --config names. A flag wins over
the environment, that over the file. Values of a repeatable option have ";" between them in the
environment, and are an array in the file.

Examples:
  attend-server
  attend-server --listen=0.0.0.0:8001 --tls-certificate=tls.crt --tls-key=tls.key --tokens=tokens.json
  attend-server --listen=unix:/run/attend.sock --threads=8
  attend-server --models=/srv/models --models-poll=10s --weights-dtype=bf16
  attend-server --config=/etc/attend.json --check-config
  attend-server --listen 127.0.0.1:0 --random-model big:d_model=768,num_heads=12,dtype=bf16)";

void AddActions(CLI::App& app, CommandLine::Actions& actions) {
  app.add_option("--config", actions.config,
                 "Read options from this file, a JSON object; --print-config shows one with all")
      ->type_name("FILE")
      ->group("Configuration");
  app.add_flag("--check-config", actions.check,
               "Check all options and the files they name, and exit: 0 when a server would start")
      ->group("Configuration");
  app.add_flag("--print-config", actions.print,
               "Print the options in effect, as a file for --config, and exit")
      ->group("Configuration");
  app.add_flag("--print-config-schema", actions.print_schema,
               "Print a JSON Schema of such files, and exit")
      ->group("Configuration");
  app.add_option("--make-token", actions.token_for,
                 "Print a new token for this tenant and its entry for --tokens, and exit")
      ->type_name("TENANT")
      ->group("Configuration");
}

// Values are checked when all sources are known, by what the option itself says.
void AddFlag(CLI::App& app, const Option& option, const std::string& section) {
  const std::string name = absl::StrCat("--", option.name);
  const auto accept = [](const CLI::results_t&) { return true; };
  CLI::Option* const flag =
      option.type == Option::Type::kSwitch
          ? app.add_flag_callback(
                name, [] {}, option.help)
          : app.add_option(name, accept, option.help)->type_name(option.placeholder);
  flag->group(section);
  if (option.is_repeatable) {
    // One value per occurrence, so that a stray word is an error and not another value.
    flag->expected(1)->take_all();
  }
  if (option.type != Option::Type::kSwitch && !option.default_values.empty()) {
    flag->default_str(absl::StrJoin(option.default_values, " "));
  }
}

}  // namespace

CommandLine::CommandLine() : app_(kDescription, "attend-server") {
  app_.footer(kExamples);
  app_.set_version_flag("--version", absl::StrCat("attend-server ", kVersion));
  app_.allow_extras();
  AddActions(app_, actions_);
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      AddFlag(app_, option, section.title);
    }
  }
}

}  // namespace attention
