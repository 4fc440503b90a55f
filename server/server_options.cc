#include "server/server_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/runtime/nearest_name.h"
#include "core/runtime/status_macros.h"
#include "server/command_line.h"
#include "server/configuration/option_table.h"
#include "server/configuration/schema.h"
#include "server/configuration/settings.h"
#include "server/security/tokens.h"

namespace attention {
namespace {

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
  parsed.options.is_default_admin_listen = !settings.contains("admin-listen");
  parsed.options.is_default_metrics_listen = !settings.contains("metrics-listen");
  parsed.is_check = line.actions().check;
  parsed.text = line.actions().print ? ToJson(settings) : "";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const Environment& environment) {
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
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see attend-server --help"));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    return Unexpected(app, extras.front());
  }
  if (!line.actions().token_for.empty()) {
    parsed.text = MakeToken(line.actions().token_for);
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
