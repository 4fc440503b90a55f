#include "server/server_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/runtime/nearest_name.h"
#include "core/runtime/status_macros.h"
#include "server/configuration/option_table.h"
#include "server/configuration/schema.h"
#include "server/configuration/settings.h"
#include "server/security/tokens.h"

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

// What concerns the configuration as a whole.
struct Actions {
  std::string config;
  bool check = false;
  bool print = false;
  bool print_schema = false;
  std::string token_for;
};

void AddActions(CLI::App& app, Actions& actions) {
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

Settings FlagsOf(const CLI::App& app) {
  Settings settings;
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      const std::string name = absl::StrCat("--", option.name);
      if (const CLI::Option& flag = *app.get_option(name); !flag.empty()) {
        settings[option.name] = {flag.results(), name};
      }
    }
  }
  return settings;
}

absl::Status Unexpected(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    names.push_back(option->get_name());
  }
  const std::string name = argument.substr(0, argument.find('='));
  return absl::InvalidArgumentError(absl::StrCat(
      argument, absl::StartsWith(argument, "-") ? ": no option has this name" : ": not expected",
      NearestHint(name, names), "; see attend-server --help"));
}

absl::Status Complete(const CLI::App& app, const Environment& environment, Actions actions,
                      ParsedCommandLine& parsed) {
  Settings settings = FlagsOf(app);
  ASSIGN_OR_RETURN(Settings variables, ReadEnvironment(environment, parsed.warnings));
  settings.merge(std::move(variables));
  if (const auto found = environment.find(VariableOf("config"));
      actions.config.empty() && found != environment.end()) {
    actions.config = found->second;
  }
  if (!actions.config.empty()) {
    ASSIGN_OR_RETURN(Settings file, ReadConfigurationFile(actions.config));
    settings.merge(std::move(file));
  }
  RETURN_IF_ERROR(Apply(settings, parsed.options));
  parsed.options.is_default_admin_listen = !settings.contains("admin-listen");
  parsed.options.is_default_metrics_listen = !settings.contains("metrics-listen");
  parsed.is_check = actions.check;
  parsed.text = actions.print ? ToJson(settings) : "";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const Environment& environment) {
  ParsedCommandLine parsed;
  Actions actions;
  CLI::App app(kDescription, "attend-server");
  app.footer(kExamples);
  app.set_version_flag("--version", absl::StrCat("attend-server ", kVersion));
  app.allow_extras();
  AddActions(app, actions);
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      AddFlag(app, option, section.title);
    }
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = absl::StrCat(version.what(), "\n");
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see attend-server --help"));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    return Unexpected(app, extras.front());
  }
  if (!actions.token_for.empty()) {
    parsed.text = MakeToken(actions.token_for);
    return parsed;
  }
  if (actions.print_schema) {
    parsed.text = ConfigurationSchema();
    return parsed;
  }
  RETURN_IF_ERROR(Complete(app, environment, actions, parsed));
  return parsed;
}

}  // namespace attention
