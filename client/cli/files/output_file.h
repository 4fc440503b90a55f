// Output of the commands. What they print may hold words of servers and files, which must not
// control the terminal: it goes through here, or through ShownText.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention {

/// Writes `text` to the file at `path`, whole or not at all, or prints it if `path` is "-".
/// UNAVAILABLE when standard output cannot be written; errors of WriteFile.
absl::Status WriteOutput(const std::string& path, const std::string& text);

/// Returns INVALID_ARGUMENT if `path` is the file of one of `used`, which it would replace. Pipes
/// and devices may be used more than once.
absl::Status CheckOtherFile(const std::string& path, const std::vector<std::string>& used);

/// Prints `text` to standard output, as ShownText makes it.
void PrintText(absl::string_view text);
/// Prints "attend: " and `text` as a line to standard error, as ShownText makes it.
void PrintError(absl::string_view text);

/// Returns `json` as text with a newline, in lines indented by `indent`, or in one line if that is
/// negative. Characters that could control a terminal are escaped, which readers of JSON undo;
/// bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::json& json, int indent = -1);

/// Prepares a text that arrives in parts, such as tokens, for the terminal.
class TerminalText {
 public:
  /// Takes the next bytes, and returns what can be shown, as Printable makes it. The first bytes of
  /// a character whose others are missing are held back.
  std::string Add(absl::string_view bytes);
  /// Returns what is held back, at the end of the text.
  std::string Rest();

 private:
  std::string held_;
};

}  // namespace attention
