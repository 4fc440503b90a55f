#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/manual/completion.h"

namespace attention {
namespace {

// Bash cuts a line into words at '=' and ':' too (COMP_WORDBREAKS), so that --flag=va is three
// words.
constexpr char kBashScript[] = R"(
@FUNCTION@_models() {
  local i server=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    # An address is cut at its colons; what is left of the line's word says all of it.
    if [[ ${COMP_WORDS[i]} == --server ]]; then
      local rest=${COMP_LINE#*--server}
      rest=${rest#[= ]}
      server=(--server "${rest%% *}")
    fi
  done
  "${COMP_WORDS[0]}" models --names --timeout 1s "${server[@]}" 2>/dev/null
}

@FUNCTION@() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= flag= i
  if [[ $word == = ]]; then
    word= flag=$before=
  elif [[ $before == = && COMP_CWORD -gt 1 ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}=
  else
    flag=$before
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      @COMMANDS@) command=${COMP_WORDS[i]} && break ;;
    esac
  done
  COMPREPLY=()
  compopt -o default +o nospace 2>/dev/null
  case "$command $flag" in
@VALUES@    *)
      local words=
      case $command in
@FLAGS@      esac
      [[ $word == -* || -z $command ]] || words=
      case $command in
@WORDS@      esac
      compopt +o default 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
      ;;
  esac
}
complete -F @FUNCTION@ @PROGRAM@
)";

std::string Pattern(const std::vector<std::string>& words) {
  return words.empty() ? "''" : absl::StrJoin(words, "|");
}

/// What completes a value, as shell commands; empty when the type says nothing.
std::string ValueCommands(const ValueHint& hint, const std::string& function) {
  std::vector<std::string> sources;
  if (!hint.words.empty()) {
    sources.push_back(
        absl::StrCat("compgen -W \"", absl::StrJoin(hint.words, " "), "\" -- \"$word\""));
  }
  if (hint.takes_models) {
    sources.push_back(absl::StrCat("compgen -W \"$(", function, "_models)\" -- \"$word\""));
  }
  if (hint.takes_files) {
    sources.push_back("compgen -f -- \"$word\"");
  }
  if (hint.takes_folders) {
    sources.push_back("compgen -d -- \"$word\"");
  }
  if (sources.empty()) {
    return "";
  }
  const char* const names = hint.takes_files || hint.takes_folders
                                ? "compopt -o filenames 2>/dev/null; "
                                : "compopt +o default 2>/dev/null; ";
  return absl::StrCat(names, "mapfile -t COMPREPLY < <(", absl::StrJoin(sources, "; "), ")");
}

/// One line for each flag that takes a value.
void AddValues(const CommandHelp& command, const std::string& function, std::string& values) {
  const std::string prefix = command.name.find(' ') == std::string::npos ? "" : ShortName(command);
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      if (flag.type.empty() || flag.is_word()) {
        continue;
      }
      const std::string commands = ValueCommands(HintOf(flag), function);
      const std::string pattern =
          absl::StrJoin(flag.names, "|", [&](std::string* text, const std::string& name) {
            absl::StrAppend(text, "'", prefix, " ", name, "='");
            if (!flag.value_is_optional) {
              absl::StrAppend(text, "|'", prefix, " ", name, "'");
            }
          });
      absl::StrAppend(&values, "    ", pattern, ") ", commands.empty() ? ":" : commands, " ;;\n");
    }
  }
}

std::vector<std::string> FlagNames(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      if (!flag.is_word()) {
        names.insert(names.end(), flag.names.begin(), flag.names.end());
      }
    }
  }
  return names;
}

/// Of the words that stand in their own place, what they can be.
std::string PlacedWords(const CommandHelp& command, const std::string& function) {
  std::string commands;
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      const std::string value = flag.is_word() ? ValueCommands(HintOf(flag), function) : "";
      if (!value.empty()) {
        absl::StrAppend(&commands, "        ", ShortName(command), ") [[ $word == -* ]] || { ",
                        value, "; return; } ;;\n");
      }
    }
  }
  return commands;
}

}  // namespace

std::string BashCompletion(const CommandHelp& program) {
  const std::string function = absl::StrCat("_", absl::StrReplaceAll(program.name, {{"-", "_"}}));
  std::vector<std::string> commands, top = FlagNames(program);
  for (const CommandHelp& command : program.commands) {
    commands.push_back(ShortName(command));
  }
  top.insert(top.end(), commands.begin(), commands.end());
  std::string values;
  AddValues(program, function, values);
  std::string flags = absl::StrCat("        '') words='", absl::StrJoin(top, " "), "' ;;\n");
  std::string words = PlacedWords(program, function);
  for (const CommandHelp& command : program.commands) {
    AddValues(command, function, values);
    absl::StrAppend(&flags, "        ", ShortName(command), ") words='",
                    absl::StrJoin(FlagNames(command), " "), "' ;;\n");
    absl::StrAppend(&words, PlacedWords(command, function));
  }
  return absl::StrCat("# bash completion for ", program.name, "; made by its own help.",
                      absl::StrReplaceAll(kBashScript, {{"@FUNCTION@", function},
                                                        {"@PROGRAM@", program.name},
                                                        {"@COMMANDS@", Pattern(commands)},
                                                        {"@VALUES@", values},
                                                        {"@FLAGS@", flags},
                                                        {"@WORDS@", words}}));
}

}  // namespace attention
