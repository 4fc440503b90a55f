#include "server/command_line.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/flag_text.h"
#include "core/runtime/nearest_name.h"
#include "core/runtime/status_macros.h"
#include "server/configuration/option_table.h"
#include "server/configuration/schema.h"
#include "server/security/tokens.h"

namespace attention {
namespace {

constexpr char kVersion[] = ATTEND_VERSION;

constexpr char kDescription[] =
    R"(attend-server: multi-head attention as a service (gRPC, attention.v1.AttentionService).

The server offers the models of a folder (--models), the built-in model "demo", and attention over
your own query, key and value. All of these can also be called by the Open Inference Protocol v2
(inference.GRPCInferenceService). Health (grpc.health.v1) and reflection are served, too.

When the server listens, it prints a line "attend-server listening on ADDRESS" for each address on
standard output, and such lines with "admin", "health" and "metrics" for those listeners. It loads
models while it serves; health is SERVING when each of them is loaded or has failed. It logs to
standard error. On SIGTERM, SIGINT or SIGHUP it refuses new requests, finishes running ones and
exits with 0; on a second SIGTERM or SIGINT it exits at once. Wrong usage, or a server that cannot
start, exits with 1.)";

constexpr char kExamples[] =
    R"(Every option can also be set in the environment and in a file: --max-queue-wait is
ATTEND_MAX_QUEUE_WAIT, and "max_queue_wait" in the JSON object of the file that --config names. A
flag overrides the environment, which overrides the file. Values of a repeatable option are
separated by ";" in the environment, and are an array in the file. A DURATION is a number of
seconds, or a text such as 500ms, 30s or 1m30s. A SIZE is a number of bytes, or a text such as 500M
(K, M, G, T: powers of 1000) or 2Gi (Ki, Mi, Gi, Ti: powers of 1024).

Examples:
  attend-server
  attend-server --listen=0.0.0.0:8001 --tls-certificate=tls.crt --tls-key=tls.key --tokens=t.json
  attend-server --listen=unix:/run/attend.sock --threads=8
  attend-server --models=/srv/models --models-poll=10s --weights-dtype=bf16
  attend-server --config=/etc/attend.json --check-config
  attend-server --listen 127.0.0.1:0 --random-model big:d_model=768,num_heads=12,dtype=bf16)";

// The help has at most 100 columns, and descriptions begin at column 30.
constexpr size_t kDescriptionColumns = 70;

std::string Description(const std::string& text) { return Wrapped(text, kDescriptionColumns); }

void AddActions(CLI::App& app, CommandLine::Actions& actions) {
  app.add_option(
         "--config", actions.config,
         Description("Read options from this file, a JSON object; --print-config prints one "
                     "with all options"))
      ->type_name("FILE")
      ->group("Configuration");
  app.add_flag(
         "--check-config", actions.check,
         Description(
             "Check all options and the files that they name, and exit: 0 if a server would start"))
      ->group("Configuration");
  app.add_flag("--print-config", actions.print,
               Description("Print the options in effect, as a file for --config, and exit"))
      ->group("Configuration");
  app.add_flag("--print-config-schema", actions.print_schema,
               Description("Print the JSON Schema of a file for --config, and exit"))
      ->group("Configuration");
  app.add_option(
         "--make-token", actions.token_for,
         Description("Print a new token for this tenant and its entry for --tokens, and exit"))
      ->type_name("TENANT")
      ->group("Configuration");
}

// Adds a flag without checking its values: Apply checks them when all sources are known.
void AddFlag(CLI::App& app, const Option& option, const std::string& section) {
  const std::string name = absl::StrCat("--", option.name);
  const auto accept = [](const CLI::results_t&) { return true; };
  CLI::Option* const flag =
      option.type == Option::Type::kSwitch
          ? app.add_flag_callback(
                name, [] {}, Description(option.help))
          : app.add_option(name, accept, Description(option.help))->type_name(option.placeholder);
  flag->group(section);
  if (option.is_repeatable) {
    // Each occurrence takes one value, so that a stray word is an error and not another value.
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
  return absl::InvalidArgumentError(
      absl::StrCat(argument,
                   absl::StartsWith(argument, "-") ? ": no option has this name"
                                                   : ": expected only options, which begin with --",
                   NearestHint(name, names), "; see attend-server --help"));
}

// Returns an error for an empty file or tenant, which would otherwise be as if it had not been
// given.
absl::Status CheckActions(const CLI::App& app) {
  for (const char* const name : {"--config", "--make-token"}) {
    const CLI::Option& option = *app.get_option(name);
    if (!option.empty() && option.results().front().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a text, found an empty one"));
    }
  }
  std::vector<std::string> actions;
  for (const char* const name :
       {"--check-config", "--print-config", "--print-config-schema", "--make-token"}) {
    if (!app.get_option(name)->empty()) {
      actions.emplace_back(name);
    }
  }
  return actions.size() <= 1 ? absl::OkStatus()
                             : absl::InvalidArgumentError(absl::StrCat(
                                   actions.front(), ": expected no other action beside it, found ",
                                   absl::StrJoin(actions.begin() + 1, actions.end(), ", ")));
}

absl::Status Complete(const CommandLine& line, const Environment& environment,
                      ParsedCommandLine& parsed) {
  Settings settings = FlagsOf(line.app());
  ASSIGN_OR_RETURN(Settings variables, ReadEnvironment(environment, parsed.warnings));
  settings.merge(std::move(variables));
  std::string config = line.actions().config;
  if (const auto found = environment.find(VariableOf("config"));
      config.empty() && found != environment.end()) {
    config = found->second;
  }
  if (!config.empty()) {
    ASSIGN_OR_RETURN(Settings file, ReadConfigurationFile(config));
    settings.merge(std::move(file));
  }
  RETURN_IF_ERROR(Apply(settings, parsed.options));
  if (const ServerOptions& options = parsed.options;
      options.prefix_cache_bytes > options.max_cache_bytes) {
    parsed.warnings.push_back(
        absl::StrCat("--prefix-cache-bytes: expected at most --max-cache-bytes (",
                     options.max_cache_bytes, "), found ", options.prefix_cache_bytes,
                     ": prefixes get at most ", options.max_cache_bytes, " bytes"));
  }
  parsed.options.is_default_admin_listen = !settings.contains("admin-listen");
  parsed.options.is_default_metrics_listen = !settings.contains("metrics-listen");
  parsed.is_check = line.actions().check;
  parsed.text = line.actions().print ? ToJson(settings) : "";
  return absl::OkStatus();
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

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const Environment& environment) {
  if (const std::optional<std::string> flag = FlagWithoutValue(arguments); flag.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(*flag, ": expected a value after the equals sign, found none"));
  }
  ParsedCommandLine parsed;
  CommandLine line;
  CLI::App& app = line.app();
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = absl::StrCat(version.what(), "\n");
    return parsed;
  } catch (const CLI::ParseError& error) {
    // The values of other options are parsed by Apply.
    const auto expected = [](const std::string&) { return "true or false"; };
    return absl::InvalidArgumentError(
        absl::StrCat(PlainParserText(error.what(), expected), "; see attend-server --help"));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    return Unexpected(app, extras.front());
  }
  RETURN_IF_ERROR(CheckActions(app));
  if (!line.actions().token_for.empty()) {
    parsed.text = MakeAccessToken(line.actions().token_for);
    return parsed;
  }
  if (line.actions().print_schema) {
    parsed.text = ConfigurationSchema();
    return parsed;
  }
  RETURN_IF_ERROR(Complete(line, environment, parsed));
  return parsed;
}

}  // namespace attention
