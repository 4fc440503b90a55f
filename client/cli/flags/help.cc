#include "client/cli/flags/help.h"

#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/plot/token_text.h"
#include "core/runtime/flag_text.h"
#include "core/runtime/nearest_name.h"

namespace attention {
namespace {

/// Adds the names of all flags of `app`, including those in option groups, and of its commands.
void AddNames(const CLI::App& app, std::vector<std::string>& flags,
              std::vector<std::string>& commands) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) {
      flags.push_back(absl::StrCat("-", name));
    }
    for (const std::string& name : option->get_lnames()) {
      flags.push_back(absl::StrCat("--", name));
    }
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    if (child->get_name().empty()) {  // an option group
      AddNames(*child, flags, commands);
    } else {
      commands.push_back(child->get_name());
    }
  }
}

/// The error text for a word that is no flag, command or argument.
std::string UnknownWord(const CLI::App& command, const std::string& word) {
  const bool is_flag = absl::StartsWith(word, "-");
  const std::string name = is_flag ? word.substr(0, word.find('=')) : word;
  std::vector<std::string> flags, commands;
  AddNames(command, flags, commands);
  const char* const kind = is_flag            ? "unknown flag "
                           : commands.empty() ? "unexpected word "
                                              : "unknown command ";
  const std::optional<std::string> nearest = NearestName(name, is_flag ? flags : commands);
  if (is_flag && nearest == name) {
    return absl::StrCat("flag ", name, " comes after the command");
  }
  return absl::StrCat(kind, name,
                      nearest.has_value() ? absl::StrCat("; did you mean ", *nearest, "?") : "");
}

/// What values the flag `name` has, by their form in its help.
std::string ExpectedOf(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  return type == "N"    ? "an integer"
         : type == "X"  ? "a number"
         : type.empty() ? "true or false"
                        : absl::StrCat("a value of the form ", type);
}

}  // namespace

void RefuseEmptyValues(const std::vector<std::string>& words) {
  if (const std::optional<std::string> flag = FlagWithoutValue(words); flag.has_value()) {
    throw CLI::ArgumentMismatch(
        absl::StrCat(*flag, ": expected a value after the equals sign, found none"));
  }
}

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* command = app;
  std::string name = app->get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&name, " ", command->get_name());
  }
  const std::vector<std::string> left = app->remaining(/*recurse=*/true);
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const std::string text = is_unknown && !left.empty()
                               ? UnknownWord(*command, left.front())
                               : PlainParserText(error.what(), [command](const auto& flag) {
                                   return ExpectedOf(*command, flag);
                                 });
  return ShownText(absl::StrCat(name, ": ", text, "\nSee ", name, " --help.\n"));
}

}  // namespace attention
