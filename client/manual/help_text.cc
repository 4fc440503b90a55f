#include "client/manual/help_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention {
namespace {

constexpr char kFlagIndent[] = "  -";
constexpr char kTextIndent[] = "    ";

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

/// Takes what follows `mark` off `head`.
std::string TakeAfter(const std::string& mark, std::string& head) {
  const size_t at = head.find(mark);
  if (at == std::string::npos) {
    return "";
  }
  std::string rest = Trimmed(head.substr(at + mark.size()));
  head.resize(at);
  return rest;
}

/// Takes names off the front of `head`: "-h,--help", or "-h,     --help" as CLI11 2.5 has it.
std::vector<std::string> TakeNames(std::string& head) {
  std::vector<std::string> names;
  bool is_more = true;
  while (is_more) {
    const size_t end = std::min(head.find_first_of(" ,"), head.size());
    // "--no-causal{false}": what the switch stands for.
    names.push_back(head.substr(0, std::min(end, head.find('{'))));
    is_more = end < head.size() && head[end] == ',';
    head.erase(0, is_more ? head.find_first_not_of(' ', end + 1) : end);
  }
  return names;
}

/// " DIR=/tmp ... Needs: --models": what comes between a flag's names and its description.
void ReadValue(std::string text, FlagHelp& flag) {
  const std::string excludes = TakeAfter(" Excludes:", text);
  const std::string needs = TakeAfter(" Needs:", text);
  text = Trimmed(std::string(absl::StripSuffix(text, " ...")));
  const size_t equals = text.find('=');
  const bool has_default =
      equals != std::string::npos && !std::all_of(text.begin() + static_cast<ptrdiff_t>(equals) + 1,
                                                  text.end(), absl::ascii_isupper);  // KEY=VALUE
  flag.type = has_default ? text.substr(0, equals) : text;
  flag.default_value = has_default ? text.substr(equals + 1) : "";
  flag.description =
      absl::StrCat(needs.empty() ? "" : absl::StrCat("\n(with ", needs, ")"),
                   excludes.empty() ? "" : absl::StrCat("\n(not with ", excludes, ")"));
}

class Reader {
 public:
  explicit Reader(const std::string& text) : lines_(absl::StrSplit(text, '\n')) {}

  CommandHelp Read(const std::string& name) {
    CommandHelp help = {
        .name = name, .description = "", .groups = {}, .footer = "", .commands = {}};
    for (; at_ < lines_.size() && !absl::StartsWith(lines_[at_], "Usage:"); ++at_) {
      absl::StrAppend(&help.description, lines_[at_], "\n");
    }
    help.description = Trimmed(help.description);
    for (++at_; at_ < lines_.size() && (IsPositionals() || !IsFooter()); ++at_) {
      ReadLine(help.groups);
    }
    for (; at_ < lines_.size(); ++at_) {
      absl::StrAppend(&help.footer, lines_[at_], "\n");
    }
    help.footer = std::string(absl::StripTrailingAsciiWhitespace(help.footer));
    return help;
  }

 private:
  bool IsAfter(const char* prefix) const {
    return at_ + 1 < lines_.size() && absl::StartsWith(lines_[at_ + 1], prefix);
  }
  bool IsTitle() const {
    return absl::EndsWith(lines_[at_], ":") && lines_[at_][0] != ' ' && IsAfter(kFlagIndent);
  }
  /// Words that stand in their own place; they are not read.
  bool IsPositionals() const {
    return lines_[at_] == "Positionals:" || lines_[at_] == "POSITIONALS:";
  }
  bool IsFooter() const { return !lines_[at_].empty() && lines_[at_][0] != ' ' && !IsTitle(); }

  void ReadLine(std::vector<FlagGroup>& groups) {
    if (IsTitle()) {
      groups.push_back({.title = lines_[at_].substr(0, lines_[at_].size() - 1), .flags = {}});
    } else if (groups.empty()) {
      return;
    } else if (absl::StartsWith(lines_[at_], kFlagIndent)) {
      groups.back().flags.push_back(ReadFlag());
    } else if (absl::StartsWith(lines_[at_], kTextIndent) && !groups.back().flags.empty()) {
      AddText(Trimmed(lines_[at_]), groups.back().flags.back());
    }
  }

  FlagHelp ReadFlag() {
    std::string head = lines_[at_].substr(2);
    const size_t length = head.size();
    FlagHelp flag = {.names = TakeNames(head)};
    size_t cut = head.find("  ");
    const size_t taken = length - head.size() + 2;  // of the line
    if (cut == std::string::npos && column_ > taken && lines_[at_].size() > column_ &&
        lines_[at_][column_ - 1] == ' ' && !IsAfter(kTextIndent)) {
      cut = column_ - taken;  // the names end just before the column of descriptions
    }
    cut = std::min(cut, head.size());
    ReadValue(head.substr(0, cut), flag);
    const std::string text = Trimmed(head.substr(cut));
    if (column_ == 0 && !text.empty()) {
      column_ = lines_[at_].size() - text.size();
    }
    AddText(text, flag);
    return flag;
  }

  /// Before what ReadValue left there.
  static void AddText(const std::string& text, FlagHelp& flag) {
    const size_t end = std::min(flag.description.find("\n("), flag.description.size());
    flag.description.insert(end, end == 0 || text.empty() ? text : absl::StrCat("\n", text));
  }

  const std::vector<std::string> lines_;
  size_t at_ = 0;
  size_t column_ = 0;  // of descriptions, once known
};

}  // namespace

absl::StatusOr<CommandHelp> ReadHelpText(const std::string& name, const std::string& text) {
  CommandHelp help = Reader(text).Read(name);
  if (help.groups.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected a help text with \"Usage:\" and flags, found none"));
  }
  help.description = std::string(absl::StripPrefix(help.description, absl::StrCat(name, ": ")));
  return help;
}

}  // namespace attention
