#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_replace.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help_group.h"
#include "client/page/asset.h"

namespace attention {

extern const Asset kCompletionScript;

namespace {

constexpr char kCompletionExamples[] = R"(Examples:
  source <(attend completion bash)                # in ~/.bashrc
  attend completion bash > ~/.local/share/bash-completion/completions/attend
  attend completion zsh > ~/.zfunc/_attend        # with fpath+=(~/.zfunc) before compinit

Exit codes: 0 done, 2 wrong usage.)";

}  // namespace

void AddCompletionCommand(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* const command =
      app.add_subcommand("completion", "Print a script for completion in a shell");
  HelpGroup(*command).Choice("shell", *shell, "bash|zsh", "Which shell")->required();
  command->footer(kCompletionExamples);
  // One script serves both shells.
  command->callback(
      [] { std::cout << absl::StrReplaceAll(kCompletionScript.text, {{"@PROGRAM@", "attend"}}); });
}

}  // namespace attention
