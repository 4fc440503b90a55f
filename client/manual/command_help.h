// A program's commands and flags, read from its parser: the source of manual pages and completions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attention {

/// A flag, or a positional argument, whose name does not begin with '-'.
struct FlagHelp {
  std::vector<std::string> names;  // "-c", "--concurrency"; or "SHELL"
  /// The form of a value: "N", "FILE", "fp32|bf16"; empty for a switch, which takes no value.
  std::string type;
  bool value_is_optional = false;
  std::string default_value;
  std::string description;

  bool is_word() const { return names.front().front() != '-'; }
};

struct FlagGroup {
  std::string title;
  std::vector<FlagHelp> flags;
};

struct CommandHelp {
  /// The full name: "attend run".
  std::string name;
  /// Paragraphs; the first is one sentence or line.
  std::string description;
  std::vector<FlagGroup> groups;
  /// Examples and other text at the end of the help, with its line breaks.
  std::string footer;
  std::vector<CommandHelp> commands;
};

/// Describes `app` and its subcommands. If a description begins with the name of its command
/// ("tool: ..."), that name is removed.
CommandHelp Describe(const CLI::App& app);

/// The last word of a command's name: "run".
std::string ShortName(const CommandHelp& command);

/// The possible values of a flag, as far as its type tells.
struct ValueHint {
  std::vector<std::string> words;
  bool takes_files = false;
  bool takes_folders = false;
  bool takes_models = false;
};

/// Reads the type of a flag: "fp32|bf16" is a choice of words; FILE, TENSOR and DIR are on the
/// disk; the value of --model, and NAME[:VERSION], is a model's name.
ValueHint HintOf(const FlagHelp& flag);

}  // namespace attention
