#include "client/manual/completion.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

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

bool IsWord(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '-' || c == '.';
  });
}

/// Assigns what the type of a value says: "fp32|bf16" is a choice of words; FILE, TENSOR and DIR
/// are on the disk; the value of --model, and NAME[:VERSION], is a model's name.
std::string Assignments(const CLI::Option& option) {
  std::string type = option.get_type_name();
  if (absl::StartsWith(type, "[")) {
    type = type.substr(1, type.find(']') - 1);
  }
  std::vector<std::string> words = absl::StrSplit(type, '|');
  std::vector<std::string> kinds;
  for (const std::string& word : words) {
    if (absl::StartsWith(word, "FILE") || word == "TENSOR") {
      kinds.push_back("files");
    } else if (word == "DIR") {
      kinds.push_back("folders");
    }
  }
  if (type == "NAME[:VERSION]" || (type == "NAME" && option.check_lname("model"))) {
    kinds.push_back("models");
  }
  const bool is_choice = words.size() > 1;
  std::erase_if(words, [](const std::string& word) { return !IsWord(word); });
  return absl::StrCat(
      is_choice && !words.empty() ? absl::StrCat("choices='", absl::StrJoin(words, " "), "' ") : "",
      kinds.empty() ? "" : absl::StrCat("kinds='", absl::StrJoin(kinds, " "), "' "));
}

/// The branches of the script's `case` statements.
struct Branches {
  std::string values;  // by command and flag
  std::string words;   // by command and the beginning of the word
};

/// What can stand for a word of a command.
struct Words {
  std::vector<std::string> names;  // of flags and commands
  std::string placed;              // what is assigned for an argument without a flag
};

/// Adds the flags of `app` and of its option groups, and the branches of their values.
void AddFlags(const CLI::App& app, const std::string& command, Branches& branches, Words& words) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string assignments = Assignments(*option);
    if (option->get_positional()) {
      words.placed = assignments;
      continue;
    }
    const std::vector<std::string> names = NamesOf(*option);
    words.names.insert(words.names.end(), names.begin(), names.end());
    const bool is_switch = option->get_type_size() == 0;
    for (const std::string& name : is_switch ? std::vector<std::string>() : names) {
      const std::string flag = absl::StrCat(command, " ", name);
      absl::StrAppend(&branches.values, "    '", flag, "='",
                      option->get_expected_min() == 0 ? "" : absl::StrCat(" | '", flag, "'"), ") ",
                      assignments.empty() ? ": " : assignments, ";;\n");
    }
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    if (child->get_name().empty()) {
      AddFlags(*child, command, branches, words);
    } else {
      words.names.push_back(child->get_name());
    }
  }
}

/// Adds the branches of `app`: a command, or with an empty name for it the program as a whole,
/// where the names of commands stand beside the flags.
void AddBranches(const CLI::App& app, const std::string& command, Branches& branches) {
  Words words;
  AddFlags(app, command, branches, words);
  absl::StrAppend(&branches.words, "        '", command, command.empty() ? " '" : " -'",
                  "*) choices='", absl::StrJoin(words.names, " "), "' ;;\n");
  if (!words.placed.empty()) {
    absl::StrAppend(&branches.words, "        '", command, " '*) ", words.placed, ";;\n");
  }
}

/// The functions of both shells, then `shell_script`.
std::string Script(const CLI::App& program, const std::string& function, const char* shell_script) {
  Branches branches;
  AddBranches(program, "", branches);
  const std::vector<std::string> commands = CommandNames(program);
  for (const std::string& command : commands) {
    AddBranches(*program.get_subcommand(command), command, branches);
  }
  return absl::StrReplaceAll(
      absl::StrCat(kCommonScript, shell_script),
      {{"@FUNCTION@", function},
       {"@PROGRAM@", program.get_name()},
       {"@COMMANDS@", commands.empty() ? "''" : absl::StrJoin(commands, " | ")},
       {"@VALUES@", branches.values},
       {"@WORDS@", branches.words}});
}

}  // namespace

std::vector<std::string> NamesOf(const CLI::Option& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.get_snames()) {
    names.push_back(absl::StrCat("-", name));
  }
  for (const std::string& name : flag.get_lnames()) {
    names.push_back(absl::StrCat("--", name));
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) {
    if (!command->get_name().empty()) {  // an option group has no name
      names.push_back(command->get_name());
    }
  }
  return names;
}

std::string BashCompletion(const CLI::App& program) {
  const std::string function =
      absl::StrCat("_", absl::StrReplaceAll(program.get_name(), {{"-", "_"}}));
  return absl::StrCat("# Completion for bash, made from the parser of ", program.get_name(), ".\n",
                      Script(program, function, kBashScript));
}

std::string ZshCompletion(const CLI::App& program) {
  // The function has the name of the file from which zsh loads it.
  return absl::StrCat("#compdef ", program.get_name(), "\n# Made from the parser of ",
                      program.get_name(), ".\n",
                      Script(program, absl::StrCat("_", program.get_name()), kZshScript));
}

}  // namespace attention
