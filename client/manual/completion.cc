#include "client/manual/completion.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

// Functions that both shells run.
//
// @FUNCTION@_find FLAG WORD WORDS... tells what can stand for WORD, which follows FLAG and, before
// it, WORDS. FLAG is "--name", or "--name=" if both are one word. The function sets the caller's
// $choices to words, and $kinds to some of files, folders and models. Its status is 0 if WORD is
// the value of FLAG.
//
// @FUNCTION@_models PROGRAM LINE prints the models of the server that LINE names.
constexpr char kCommonScript[] = R"sh(
@FUNCTION@_find() {
  local command= each
  for each in "${@:3}"; do
    case $each in
      @COMMANDS@) command=$each && break ;;
    esac
  done
  case "$command $1" in
@VALUES@    *)
      case "$command $2" in
@WORDS@      esac
      return 1
      ;;
  esac
}

@FUNCTION@_models() {
  local server=${2#*--server[= ]}
  if [[ $server == "$2" ]]; then
    "$1" models --names --timeout 1s 2>/dev/null
  else
    "$1" models --names --timeout 1s --server "${server%% *}" 2>/dev/null
  fi
}
)sh";

// Bash also cuts a line into words at '=' and ':' (COMP_WORDBREAKS): --flag=va is three words.
constexpr char kBashScript[] = R"sh(
@FUNCTION@() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} choices= kinds=
  if [[ $word == = ]]; then
    word= flag=$flag=
  elif [[ $flag == = && COMP_CWORD -gt 1 ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}=
  fi
  compopt -o default +o nospace 2>/dev/null
  @FUNCTION@_find "$flag" "$word" "${COMP_WORDS[@]:1:COMP_CWORD-1}" && [[ -z $choices$kinds ]] ||
    compopt +o default 2>/dev/null
  [[ $kinds != *models* ]] || choices+=" $(@FUNCTION@_models "${COMP_WORDS[0]}" "$COMP_LINE")"
  mapfile -t COMPREPLY < <(
    compgen -W "$choices" -- "$word"
    [[ $kinds != *files* ]] || compgen -f -- "$word"
    [[ $kinds != *folders* ]] || compgen -d -- "$word"
  )
  [[ $kinds != *f* ]] || compopt -o filenames 2>/dev/null  # files or folders
}
complete -F @FUNCTION@ @PROGRAM@
)sh";

constexpr char kZshScript[] = R"sh(
@FUNCTION@() {
  local word=$words[CURRENT] flag=$words[CURRENT-1] choices= kinds=
  if [[ $word == --*=* ]]; then
    flag=${word%%=*}= word=${word#*=}
    compset -P 1 '*='
  fi
  @FUNCTION@_find "$flag" "$word" "${(@)words[2,CURRENT-1]}"
  [[ $kinds != *models* ]] || choices+=" $(@FUNCTION@_models $words[1] "$words")"
  compadd -- ${=choices}
  [[ $kinds != *files* ]] || _files
  [[ $kinds != *folders* ]] || _directories
}

if [[ $funcstack[1] == @FUNCTION@ ]]; then
  @FUNCTION@ "$@"
else
  compdef @FUNCTION@ @PROGRAM@
fi
)sh";

/// Assigns what the script is to know of a value; empty if its type says nothing.
std::string Assignments(const ValueHint& hint) {
  const std::string kinds =
      absl::StrCat(hint.takes_files ? "files " : "", hint.takes_folders ? "folders " : "",
                   hint.takes_models ? "models " : "");
  return absl::StrCat(
      hint.words.empty() ? "" : absl::StrCat("choices='", absl::StrJoin(hint.words, " "), "' "),
      kinds.empty() ? "" : absl::StrCat("kinds='", kinds, "' "));
}

/// The branches of the script's `case` statements.
struct Branches {
  std::string values;  // by command and flag
  std::string words;   // by command and the beginning of the word
};

/// Adds the branches of a command, or with an empty `name` those of the program as a whole, where
/// the names of commands stand beside the flags.
void AddBranches(const CommandHelp& command, const std::string& name, Branches& branches) {
  std::vector<std::string> choices;
  std::string placed;
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      const std::string assignments = Assignments(HintOf(flag));
      if (flag.is_word()) {
        placed = assignments;
        continue;
      }
      choices.insert(choices.end(), flag.names.begin(), flag.names.end());
      for (const std::string& flag_name :
           flag.type.empty() ? std::vector<std::string>() : flag.names) {
        absl::StrAppend(
            &branches.values, "    '", name, " ", flag_name, "='",
            flag.value_is_optional ? "" : absl::StrCat(" | '", name, " ", flag_name, "'"), ") ",
            assignments.empty() ? ": " : assignments, ";;\n");
      }
    }
  }
  for (const CommandHelp& child : command.commands) {
    choices.push_back(ShortName(child));
  }
  absl::StrAppend(&branches.words, "        '", name, name.empty() ? " '" : " -'", "*) choices='",
                  absl::StrJoin(choices, " "), "' ;;\n");
  if (!placed.empty()) {
    absl::StrAppend(&branches.words, "        '", name, " '*) ", placed, ";;\n");
  }
}

/// The functions of both shells, then `shell_script`.
std::string Script(const CommandHelp& program, const std::string& function,
                   const char* shell_script) {
  Branches branches;
  std::vector<std::string> commands;
  AddBranches(program, "", branches);
  for (const CommandHelp& command : program.commands) {
    commands.push_back(ShortName(command));
    AddBranches(command, commands.back(), branches);
  }
  return absl::StrReplaceAll(
      absl::StrCat(kCommonScript, shell_script),
      {{"@FUNCTION@", function},
       {"@PROGRAM@", program.name},
       {"@COMMANDS@", commands.empty() ? "''" : absl::StrJoin(commands, " | ")},
       {"@VALUES@", branches.values},
       {"@WORDS@", branches.words}});
}

}  // namespace

std::string BashCompletion(const CommandHelp& program) {
  const std::string function = absl::StrCat("_", absl::StrReplaceAll(program.name, {{"-", "_"}}));
  return absl::StrCat("# Completion for bash, made from the parser of ", program.name, ".\n",
                      Script(program, function, kBashScript));
}

std::string ZshCompletion(const CommandHelp& program) {
  // The function has the name of the file from which zsh loads it.
  return absl::StrCat("#compdef ", program.name, "\n# Made from the parser of ", program.name,
                      ".\n", Script(program, absl::StrCat("_", program.name), kZshScript));
}

}  // namespace attention
