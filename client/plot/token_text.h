// How tokens are displayed: on one line, without invisible characters, and without effect on the
// text around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attention {

/// Returns `token` with all invisible characters made visible: spaces as U+2423, line breaks and
/// tabs as arrows, control characters as their pictures (U+2400), formatting characters (zero
/// width, or of bidirectional text) as <U+202E>, and bytes that are not UTF-8 as \xNN. An empty
/// token becomes U+2205.
std::string ShownToken(absl::string_view token);

/// Does the same for a line of words, which keeps its spaces and may be empty. What this or
/// ShownToken returned stays as it is.
std::string ShownLine(absl::string_view line);
/// Does the same for a text of several lines, which it keeps.
std::string ShownText(absl::string_view text);

/// Returns the columns that valid UTF-8 takes in a terminal, by wcwidth: 2 for wide East Asian
/// characters and emoji, 0 for combining marks.
int64_t ColumnsOf(absl::string_view text);

/// Returns `text` cut to `columns`; the last column of a cut text is an ellipsis.
std::string CutTo(absl::string_view text, int64_t columns);

/// Returns `count` spaces; none for a negative count.
std::string Spaces(int64_t count);
/// Returns `text` with spaces before it, to fill `columns`.
std::string PadLeft(absl::string_view text, int64_t columns);

/// Returns names of rows and keys without tokens: "0", "1", ...; with a prefix "memory 0", "memory
/// 1", ...
std::vector<std::string> NumberedTokens(int64_t count, absl::string_view prefix = "");

}  // namespace attention
