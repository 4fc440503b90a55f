#include "core/runtime/flag_text.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attention {

std::string Wrapped(absl::string_view text, size_t columns) {
  std::vector<std::string> lines;
  for (const absl::string_view given : absl::StrSplit(text, '\n')) {
    std::string line;
    for (const absl::string_view word : absl::StrSplit(given, ' ')) {
      if (!line.empty() && line.size() + 1 + word.size() > columns) {
        lines.push_back(std::exchange(line, ""));
      }
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    }
    lines.push_back(line);
  }
  return absl::StrJoin(lines, "\n");
}

std::optional<absl::Duration> ReadDuration(absl::string_view text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    return absl::Seconds(seconds);
  }
  absl::Duration duration;
  return absl::ParseDuration(text, &duration) ? std::optional(duration) : std::nullopt;
}

std::optional<std::string> FlagWithoutValue(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") {
      return std::nullopt;
    }
    if (absl::StartsWith(word, "--") && word.find('=') == word.size() - 1) {
      return word.substr(0, word.size() - 1);
    }
  }
  return std::nullopt;
}

std::string PlainParserText(const std::string& text,
                            const std::function<std::string(const std::string& flag)>& expected) {
  if (absl::string_view rest = text; absl::ConsumePrefix(&rest, "Could not convert: ")) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(rest, absl::MaxSplits(" = ", 1));
    return absl::StrCat(parts.first, ": expected ", expected(parts.first), ", found \"",
                        parts.second, "\"");
  }
  const std::pair<absl::string_view, absl::string_view> needs =
      absl::StrSplit(text, absl::MaxSplits(": 1 required ", 1));
  if (absl::EndsWith(needs.second, " missing")) {
    return absl::StrCat(needs.first, ": expected a value, found none");
  }
  const std::pair<std::string, std::string> counts =
      absl::StrSplit(text, absl::MaxSplits(": At Most 1 required but received ", 1));
  return counts.second.empty()
             ? text
             : absl::StrCat(counts.first, ": expected one value, found ", counts.second);
}

}  // namespace attention
