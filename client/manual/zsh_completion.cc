#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/manual/completion.h"

namespace attention {
namespace {

constexpr char kZshScript[] = R"zsh(
@FUNCTION@_models() {
  local -a names server
  integer at=${words[(I)--server]}
  (( at )) && server=(--server $words[at+1])
  at=${words[(I)--server=*]}
  (( at )) && server=($words[at])
  names=(${(f)"$(_call_program models @PROGRAM@ models --names --timeout 1s $server 2>/dev/null)"})
  compadd -a names
}

@FUNCTION@() {
  local curcontext=$curcontext state line
  local -a commands
  typeset -A opt_args
  _arguments -S -C \
@FLAGS@    && return
  case $state in
    command)
      commands=(
@COMMANDS@      )
      _describe -t commands command commands
      ;;
    arguments)
      curcontext="${curcontext%:*:*}:@PROGRAM@-$line[1]:"
      case $line[1] in
@CASES@      esac
      ;;
  esac
}

if [[ $funcstack[1] == @FUNCTION@ ]]; then
  @FUNCTION@ "$@"
else
  compdef @FUNCTION@ @PROGRAM@
fi
)zsh";

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

/// The first line of a description, as it stands between brackets, or behind a colon.
std::string Explained(const std::string& description) {
  return absl::StrReplaceAll(description.substr(0, description.find('\n')),
                             {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ActionOf(const FlagHelp& flag, const std::string& function) {
  const ValueHint hint = HintOf(flag);
  if (hint.takes_files) {
    return "_files";
  }
  if (hint.takes_folders) {
    return "_directories";
  }
  if (hint.takes_models) {
    return absl::StrCat(function, "_models");
  }
  return hint.words.empty() ? " " : absl::StrCat("(", absl::StrJoin(hint.words, " "), ")");
}

/// One for each of its names.
std::vector<std::string> SpecsOf(const FlagHelp& flag, const std::string& function) {
  const std::string message = absl::StrReplaceAll(flag.type, {{":", "\\:"}});
  if (flag.is_word()) {
    return {Quoted(absl::StrCat(flag.value_is_optional ? "1::" : "*:", flag.names[0], ":",
                                ActionOf(flag, function)))};
  }
  std::vector<std::string> specs;
  for (const std::string& name : flag.names) {
    const bool is_long = name[1] == '-';
    std::string spec = absl::StrCat("*", name);
    if (flag.type.empty()) {
      absl::StrAppend(&spec, "[", Explained(flag.description), "]");
    } else {
      absl::StrAppend(&spec, is_long ? "=" : "+", flag.value_is_optional ? "-" : "", "[",
                      Explained(flag.description), "]", flag.value_is_optional ? "::" : ":",
                      message, ":", ActionOf(flag, function));
    }
    specs.push_back(Quoted(spec));
  }
  return specs;
}

/// Lines of arguments of _arguments.
std::string FlagSpecs(const CommandHelp& command, const std::string& function,
                      const std::string& indent) {
  std::string lines;
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      for (const std::string& spec : SpecsOf(flag, function)) {
        absl::StrAppend(&lines, indent, spec, " \\\n");
      }
    }
  }
  return lines;
}

}  // namespace

std::string ZshCompletion(const CommandHelp& program) {
  const std::string function = absl::StrCat("_", program.name);  // as the file that autoload reads
  std::string flags = FlagSpecs(program, function, "    "), commands, cases;
  if (!program.commands.empty()) {
    absl::StrAppend(&flags, "    '1: :->command' '*:: :->arguments' \\\n");
  }
  for (const CommandHelp& command : program.commands) {
    absl::StrAppend(&commands, "        ",
                    Quoted(absl::StrCat(ShortName(command), ":", Explained(command.description))),
                    "\n");
    absl::StrAppend(&cases, "        ", ShortName(command), ")\n          _arguments -S \\\n",
                    FlagSpecs(command, function, "            "), "            ;;\n");
  }
  return absl::StrCat("#compdef ", program.name, "\n# zsh completion for ", program.name,
                      "; made by its own help.\n",
                      absl::StrReplaceAll(kZshScript, {{"@FUNCTION@", function},
                                                       {"@PROGRAM@", program.name},
                                                       {"@FLAGS@", flags},
                                                       {"@COMMANDS@", commands},
                                                       {"@CASES@", cases}}));
}

}  // namespace attention
