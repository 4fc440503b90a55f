// `attend completion` and `attend man`, which are made from the parser of the program.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/manual/completion.h"
#include "client/manual/man_page.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kCompletionExamples[] = R"(Examples:
  source <(attend completion bash)                  in ~/.bashrc
  attend completion bash > ~/.local/share/bash-completion/completions/attend
  attend completion zsh > ~/.zfunc/_attend          with fpath+=(~/.zfunc) before compinit)";

constexpr char kManExamples[] = R"(Examples:
  attend man | man -l -
  attend man bench | man -l -
  attend man --output /usr/local/share/man/man1)";

/// All pages except `page`.
std::vector<std::string> OtherPages(const CommandHelp& program, const std::string& page) {
  std::vector<std::string> pages = {absl::StrCat(PageName(program), "(1)")};
  for (const CommandHelp& command : program.commands) {
    pages.push_back(absl::StrCat(PageName(command), "(1)"));
  }
  pages.push_back("attend-server(8)");
  std::erase(pages, absl::StrCat(page, "(1)"));
  return pages;
}

std::string PageOf(const CommandHelp& program, const CommandHelp& command) {
  return ManPage(command, {.source = absl::StrCat("Attend ", ATTEND_VERSION),
                           .see_also = OtherPages(program, PageName(command))});
}

absl::Status WritePages(const std::string& folder, const CommandHelp& program) {
  std::vector<CommandHelp> pages = program.commands;
  pages.push_back(program);
  for (const CommandHelp& page : pages) {
    RETURN_IF_ERROR(
        WriteFile(absl::StrCat(folder, "/", PageName(page), ".1"), {PageOf(program, page)}));
  }
  return absl::OkStatus();
}

/// The page of the command `name`, or without a name that of the program.
std::string PageNamed(const std::string& name, const CommandHelp& program) {
  if (name.empty()) {
    return PageOf(program, program);
  }
  std::vector<std::string> names;
  for (const CommandHelp& command : program.commands) {
    if (ShortName(command) == name) {
      return PageOf(program, command);
    }
    names.push_back(ShortName(command));
  }
  throw CLI::ValidationError(
      absl::StrCat("expected one of ", absl::StrJoin(names, ", "), ", found ", name));
}

}  // namespace

void AddCompletionCommand(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* const command =
      app.add_subcommand("completion", "Print a script for completion in a shell");
  HelpGroup(*command).Choice("shell", *shell, "bash|zsh", "Which shell")->required();
  command->footer(kCompletionExamples);
  command->callback([&app, shell] {
    const CommandHelp program = Describe(app);
    std::cout << (*shell == "bash" ? BashCompletion(program) : ZshCompletion(program));
  });
}

void AddManCommand(CLI::App& app, int& exit_code) {
  struct Flags {
    std::string command;
    std::string folder;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* const command =
      app.add_subcommand("man", "Print the manual page of attend or of a command, as roff");
  HelpGroup group(*command);
  CLI::Option* const name =
      group.Value("command", flags->command, "COMMAND", "Which command; default: attend itself");
  group.Value("--output", flags->folder, "DIR", "Write all pages into this folder instead")
      ->check(CLI::ExistingDirectory.description(""))
      ->excludes(name);
  command->footer(kManExamples);
  command->callback([&app, &exit_code, flags] {
    const CommandHelp program = Describe(app);
    if (flags->folder.empty()) {
      std::cout << PageNamed(flags->command, program);
    } else {
      exit_code = ExitCodeOf(WritePages(flags->folder, program));
    }
  });
}

}  // namespace attention
