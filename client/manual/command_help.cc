#include "client/manual/command_help.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attention {
namespace {

std::string NamesOf(const std::set<CLI::Option*>& options) {
  return absl::StrJoin(options, ", ", [](std::string* text, const CLI::Option* option) {
    absl::StrAppend(text, option->get_name());
  });
}

FlagHelp Describe(const CLI::Option& option) {
  FlagHelp flag = {.type = option.get_type_size() == 0 ? "" : option.get_type_name(),
                   .value_is_optional = option.get_expected_min() == 0,
                   .default_value = option.get_default_str(),
                   .description = option.get_description()};
  for (const std::string& name : option.get_snames()) {
    flag.names.push_back(absl::StrCat("-", name));
  }
  for (const std::string& name : option.get_lnames()) {
    flag.names.push_back(absl::StrCat("--", name));
  }
  if (option.get_positional()) {
    flag.names = {option.get_name(/*positional=*/true)};
    flag.value_is_optional = !option.get_required();
  }
  if (!option.get_needs().empty()) {
    absl::StrAppend(&flag.description, "\n(with ", NamesOf(option.get_needs()), ")");
  }
  if (!option.get_excludes().empty()) {
    absl::StrAppend(&flag.description, "\n(not with ", NamesOf(option.get_excludes()), ")");
  }
  return flag;
}

void AddGroups(const CLI::App& app, std::vector<FlagGroup>& groups) {
  for (const std::string& title : app.get_groups()) {
    FlagGroup group = {.title = app.get_name().empty() ? app.get_group() : title};
    for (const CLI::Option* option : app.get_options(
             [&](const CLI::Option* one) { return !title.empty() && one->get_group() == title; })) {
      group.flags.push_back(Describe(*option));
    }
    if (!group.flags.empty()) {
      groups.push_back(std::move(group));
    }
  }
}

CommandHelp Describe(const CLI::App& app, const std::string& parent) {
  CommandHelp help = {.name = absl::StrCat(parent, app.get_name()),
                      .description = std::string(absl::StripPrefix(
                          app.get_description(), absl::StrCat(app.get_name(), ": "))),
                      .footer = app.get_footer()};
  AddGroups(app, help.groups);
  for (const CLI::App* child : app.get_subcommands({})) {
    if (child->get_name().empty()) {
      AddGroups(*child, help.groups);  // an option group, whose flags belong to the command
    } else {
      help.commands.push_back(Describe(*child, absl::StrCat(help.name, " ")));
    }
  }
  return help;
}

bool IsWord(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

CommandHelp Describe(const CLI::App& app) { return Describe(app, ""); }

std::string ShortName(const CommandHelp& command) {
  return command.name.substr(command.name.rfind(' ') + 1);
}

ValueHint HintOf(const FlagHelp& flag) {
  ValueHint hint;
  const bool is_bracketed = absl::StartsWith(flag.type, "[");
  const std::string type = is_bracketed ? flag.type.substr(1, flag.type.find(']') - 1) : flag.type;
  const std::vector<std::string> choices = absl::StrSplit(type, '|');
  for (const std::string& choice : choices) {
    if (choices.size() > 1 && IsWord(choice)) {
      hint.words.push_back(choice);
    }
    hint.takes_files |= absl::StartsWith(choice, "FILE") || choice == "TENSOR";
    hint.takes_folders |= choice == "DIR";
  }
  hint.takes_models = type == "NAME[:VERSION]" || (type == "NAME" && flag.names[0] == "--model");
  return hint;
}

}  // namespace attention
