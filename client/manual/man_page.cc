#include "client/manual/man_page.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace attention {
namespace {

constexpr char kExitCodes[] = "Exit codes:";

/// Escapes text for roff: no line begins with a control character, and hyphens can be searched for.
std::string Escaped(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"`", "\\(ga"}, {"^", "\\(ha"}, {"~", "\\(ti"}});
  const bool is_control = absl::StartsWith(escaped, ".") || absl::StartsWith(escaped, "'");
  return is_control ? absl::StrCat("\\&", escaped) : escaped;
}

/// Paragraphs that roff fills. Each line of `text` stays a line of the source.
std::string Filled(const std::string& text) {
  std::string roff;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string trimmed(absl::StripAsciiWhitespace(line));
    if (!trimmed.empty()) {
      absl::StrAppend(&roff, Escaped(trimmed), "\n");
    } else if (!roff.empty() && !absl::EndsWith(roff, ".PP\n")) {
      absl::StrAppend(&roff, ".PP\n");
    }
  }
  return roff;
}

/// The first sentence of the description, without its full stop.
std::string Summary(const CommandHelp& command) {
  const std::string first = command.description.substr(0, command.description.find('\n'));
  return std::string(absl::StripSuffix(first, "."));
}

/// The heading of a flag: "\fB\-c\fR, \fB\-\-concurrency\fR \fIN\fR".
std::string TagOf(const FlagHelp& flag) {
  std::string tag = absl::StrJoin(flag.names, ", ", [](std::string* text, const std::string& name) {
    absl::StrAppend(text, "\\fB", Escaped(name), "\\fR");
  });
  if (!flag.type.empty() && !flag.is_word()) {
    absl::StrAppend(&tag, flag.value_is_optional ? " [" : " ", "\\fI", Escaped(flag.type), "\\fR",
                    flag.value_is_optional ? "]" : "");
  }
  return tag;
}

std::string FlagsOf(const FlagGroup& group) {
  std::string roff;
  for (const FlagHelp& flag : group.flags) {
    absl::StrAppend(&roff, ".TP\n", TagOf(flag), "\n", Filled(flag.description));
    if (!flag.default_value.empty()) {
      absl::StrAppend(&roff, ".br\nDefault: ", Escaped(flag.default_value), "\n");
    }
  }
  return roff;
}

std::string Synopsis(const CommandHelp& command) {
  std::string roff = absl::StrCat(".B ", Escaped(command.name), "\n");
  if (!command.commands.empty()) {
    return absl::StrCat(roff, "\\fICOMMAND\\fR [\\fIFLAG\\fR...]\n");
  }
  absl::StrAppend(&roff, "[\\fIFLAG\\fR...]\n");
  for (const FlagGroup& group : command.groups) {
    for (const FlagHelp& flag : group.flags) {
      if (flag.is_word()) {
        absl::StrAppend(&roff, flag.value_is_optional ? "[" : "", "\\fI",
                        Escaped(flag.names.front()), "\\fR", flag.value_is_optional ? "]" : "",
                        "\n");
      }
    }
  }
  return roff;
}

std::string Commands(const CommandHelp& command) {
  std::string roff = ".SH COMMANDS\n";
  for (const CommandHelp& child : command.commands) {
    absl::StrAppend(&roff, ".TP\n\\fB", Escaped(ShortName(child)), "\\fR\n",
                    Filled(child.description), "See \\fB", Escaped(PageName(child)), "\\fR(1).\n");
  }
  return roff;
}

/// Lines that keep their line breaks.
std::string Unfilled(const std::vector<std::string>& lines) {
  std::string roff = ".nf\n";
  for (const std::string& line : lines) {
    absl::StrAppend(&roff, Escaped(line), "\n");
  }
  return absl::StrCat(roff, ".fi\n");
}

/// The section that a paragraph of a footer becomes.
std::string Paragraph(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (absl::StartsWith(text, kExitCodes)) {
    return absl::StrCat(".SH EXIT STATUS\n", Filled(text.substr(sizeof(kExitCodes) - 1)));
  }
  const std::string first = lines.front();
  lines.erase(lines.begin());
  const bool is_list =
      absl::EndsWith(first, ":") && !lines.empty() && absl::StartsWith(lines.front(), " ");
  if (is_list) {
    return absl::StrCat(".SH ", Escaped(absl::AsciiStrToUpper(first.substr(0, first.size() - 1))),
                        "\n", Unfilled(lines));
  }
  return absl::StrCat(".SH NOTES\n", Filled(text));
}

/// The sections of a footer. Successive notes share a heading.
std::string Footer(const std::string& text) {
  std::string roff;
  bool after_notes = false;
  for (const absl::string_view paragraph : absl::StrSplit(text, "\n\n", absl::SkipWhitespace())) {
    std::string section = Paragraph(std::string(paragraph));
    const bool is_notes = absl::StartsWith(section, ".SH NOTES\n");
    if (is_notes && after_notes) {
      section.replace(0, std::string(".SH NOTES").size(), ".PP");
    }
    absl::StrAppend(&roff, section);
    after_notes = is_notes;
  }
  return roff;
}

}  // namespace

std::string PageName(const CommandHelp& command) {
  return absl::StrReplaceAll(command.name, {{" ", "-"}});
}

std::string ManPage(const CommandHelp& command, const ManPageOptions& options) {
  const std::string page = PageName(command);
  std::string roff =
      absl::StrCat(".TH \"", absl::AsciiStrToUpper(page), "\" \"", options.section, "\" \"\" \"",
                   options.source, "\" \"Attend\"\n.SH NAME\n", Escaped(page), " \\- ",
                   Escaped(Summary(command)), "\n.SH SYNOPSIS\n", Synopsis(command));
  const std::string more(absl::StripAsciiWhitespace(command.description.substr(
      std::min(command.description.find('\n'), command.description.size()))));
  absl::StrAppend(&roff, ".SH DESCRIPTION\n",
                  Filled(more.empty() ? absl::StrCat(Summary(command), ".") : more));
  if (!command.commands.empty()) {
    absl::StrAppend(&roff, Commands(command));
  }
  if (!command.groups.empty()) {
    absl::StrAppend(&roff, ".SH OPTIONS\n");
  }
  for (const FlagGroup& group : command.groups) {
    const bool is_titled = group.title != "Options" && group.title != "OPTIONS";
    absl::StrAppend(&roff, is_titled ? absl::StrCat(".SS ", Escaped(group.title), "\n") : "",
                    FlagsOf(group));
  }
  absl::StrAppend(&roff, Footer(command.footer));
  if (!options.see_also.empty()) {
    absl::StrAppend(&roff, ".SH SEE ALSO\n", Escaped(absl::StrJoin(options.see_also, ",\n")), "\n");
  }
  return roff;
}

}  // namespace attention
