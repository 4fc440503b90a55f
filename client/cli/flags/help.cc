#include "client/cli/flags/help.h"

#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/plot/token_text.h"
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
  return absl::StrCat(kind, name,
                      nearest.has_value() ? absl::StrCat("; did you mean ", *nearest, "?") : "");
}

}  // namespace

void RefuseEmptyValues(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") {
      return;
    }
    if (absl::StartsWith(word, "--") && word.find('=') == word.size() - 1) {
      throw CLI::ArgumentMismatch(absl::StrCat(word, ": expected a value after \"=\", found none"));
    }
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
  return ShownText(absl::StrCat(
      name, ": ", is_unknown && !left.empty() ? UnknownWord(*command, left.front()) : error.what(),
      "\nSee ", name, " --help.\n"));
}

}  // namespace attention
