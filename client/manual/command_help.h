// What a program says of itself, in parts: what its manual pages and completions are made of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attention {

/// A flag, or (without names that begin with '-') a word that stands in its own place.
struct FlagHelp {
  std::vector<std::string> names;  // "-c", "--concurrency"; one, such as "SHELL", of a word
  /// What a value looks like: "N", "FILE", "fp32|bf16". Empty: a switch, which takes none.
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
  /// All its words: "attend run".
  std::string name;
  /// Paragraphs, of which the first is one sentence or line.
  std::string description;
  std::vector<FlagGroup> groups;
  /// Examples and whatever else stands at the end, as it is laid out.
  std::string footer;
  std::vector<CommandHelp> commands;
};

/// Of `app` and its subcommands. A description that begins with the name of its command ("tool:
/// ...") is without it here.
CommandHelp Describe(const CLI::App& app);

/// The last word of a command's name: "run".
std::string ShortName(const CommandHelp& command);

/// What can stand for the value of a flag, as far as its type says.
struct ValueHint {
  std::vector<std::string> words;
  bool takes_files = false;
  bool takes_folders = false;
  bool takes_models = false;
};

/// "fp32|bf16" is a choice of words; FILE, TENSOR and DIR are on the disk; the value of --model,
/// and NAME[:VERSION], is a model's name.
ValueHint HintOf(const FlagHelp& flag);

}  // namespace attention
