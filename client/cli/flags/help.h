// How `--help` looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "core/runtime/flag_text.h"

namespace attention {

/// The beginning of the titles of groups that --help leaves out; --help-expert, manual pages and
/// completions have them.
inline constexpr char kExpertPrefix[] = "Expert: ";

/// Writes help in lines of at most 100 columns, without the groups of experts unless they ask.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(kNameColumns);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    shows_expert_ = mode == CLI::AppFormatMode::All;
    std::string help = CLI::Formatter::make_help(app, name, mode);
    // Removes the empty lines that hidden groups leave.
    while (absl::StrReplaceAll({{"\n\n\n", "\n\n"}}, &help) > 0) {
    }
    return help;
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return !shows_expert_ && absl::StartsWith(group, kExpertPrefix)
               ? ""
               : CLI::Formatter::make_group(group, is_positional, options);
  }
  /// Leaves out the values that CLI11 shows of flags that switch something off:
  /// "--no-causal{false}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return absl::StrReplaceAll(CLI::Formatter::make_option_name(option, is_positional),
                               {{"{false}", ""}});
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return Wrapped(CLI::Formatter::make_option_desc(option), kColumns - kNameColumns);
  }

 private:
  static constexpr size_t kColumns = 100;
  static constexpr size_t kNameColumns = 36;  // of flags and their types

  mutable bool shows_expert_ = false;
};

/// Throws CLI::ArgumentMismatch for a word "--flag=", after which CLI11 takes the next word as the
/// value. Words after "--" may be anything.
void RefuseEmptyValues(const std::vector<std::string>& words);

/// Returns the text of a usage error, for CLI::App::failure_message: the subcommand, what is wrong,
/// what may have been meant, and where to read more.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

}  // namespace attention
