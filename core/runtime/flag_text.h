// Texts of command lines, which the server and the client read and write alike.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attention {

/// Returns `text` with line breaks between words, besides those that it has, so that a line has at
/// most `columns` bytes if its words allow it.
std::string Wrapped(absl::string_view text, size_t columns);

/// Parses "30" (seconds), "30s" or "1m30s"; absent for another text. The result may be negative or
/// infinite.
std::optional<absl::Duration> ReadDuration(absl::string_view text);

/// Returns the first word "--NAME=" without its equals sign, if there is one before the word "--".
/// The parser of flags, CLI11, would take the next word for its value: in "--required-models=
/// --tokens=FILE" that would be a server without tokens.
std::optional<std::string> FlagWithoutValue(const std::vector<std::string>& words);

/// Returns an error text of CLI11 in our own form: what was expected and what was found. `expected`
/// returns what values the flag of a name has: "an integer".
std::string PlainParserText(const std::string& text,
                            const std::function<std::string(const std::string& flag)>& expected);

}  // namespace attention
