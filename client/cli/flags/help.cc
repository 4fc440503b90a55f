#include "client/cli/flags/help.h"

#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/manual/completion.h"
#include "core/runtime/nearest_name.h"

namespace attention {
namespace {

/// Adds the names of all flags of `app`, including those in option groups.
void AddFlagNames(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> own = NamesOf(*option);
    names.insert(names.end(), own.begin(), own.end());
  }
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* child) { return child->get_name().empty(); })) {
    AddFlagNames(*group, names);
  }
}

/// The error text for a word that is no flag, command or argument.
std::string UnknownWord(const CLI::App& command, const std::string& word) {
  const bool is_flag = absl::StartsWith(word, "-");
  const std::string name = is_flag ? word.substr(0, word.find('=')) : word;
  std::vector<std::string> names;
  if (is_flag) {
    AddFlagNames(command, names);
  } else {
    names = CommandNames(command);
  }
  const char* const kind = is_flag         ? "unknown flag "
                           : names.empty() ? "unexpected word "
                                           : "unknown command ";
  const std::optional<std::string> nearest = NearestName(name, names);
  return absl::StrCat(kind, name,
                      nearest.has_value() ? absl::StrCat("; did you mean ", *nearest, "?") : "");
}

}  // namespace

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* command = app;
  std::string name = app->get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&name, " ", command->get_name());
  }
  const std::vector<std::string> left = app->remaining(/*recurse=*/true);
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  return absl::StrCat(
      name, ": ", is_unknown && !left.empty() ? UnknownWord(*command, left.front()) : error.what(),
      "\nSee ", name, " --help.\n");
}

}  // namespace attention
