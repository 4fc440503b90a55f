#include "client/cli/show/command_text.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace attention {
namespace {

constexpr char kMetadata[] = "--metadata=";

/// Replaces the value of KEY=VALUE by "...".
std::string WithoutValue(const std::string& pair) {
  return absl::StrCat(pair.substr(0, pair.find('=')), "=...");
}

/// Whether the parser takes `word` as a flag, and not as one more value of the flag before.
bool IsFlag(const std::string& word) {
  return absl::StartsWith(word, "--") ||
         (word.size() > 1 && word[0] == '-' && absl::ascii_isalpha(word[1]));
}

}  // namespace

std::string ShellQuoted(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_-./:=,@%+", c);
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string WithoutSecrets(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  bool is_value = false;         // whatever the word looks like
  bool is_after_values = false;  // the parser takes further words as values, up to the next flag
  for (const std::string& word : words) {
    const bool is_bare = word == "--metadata" || word == "-m";
    const absl::string_view prefix = absl::StartsWith(word, kMetadata) ? kMetadata
                                     : absl::StartsWith(word, "-m")    ? "-m"
                                                                       : "";
    if (is_value || (is_after_values && !IsFlag(word))) {
      shown.push_back(WithoutValue(word));
      is_value = false;
      continue;
    }
    is_value = is_bare || word == kMetadata;
    is_after_values = is_bare || !prefix.empty();
    shown.push_back(is_value || prefix.empty()
                        ? word
                        : absl::StrCat(prefix, WithoutValue(word.substr(prefix.size()))));
  }
  return absl::StrJoin(shown, " ", [](std::string* line, const std::string& word) {
    absl::StrAppend(line, ShellQuoted(word));
  });
}

std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  return WithoutSecrets(words);
}

}  // namespace attention
