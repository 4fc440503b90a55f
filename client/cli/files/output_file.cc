#include "client/cli/files/output_file.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/escape.h"
#include "client/plot/token_text.h"
#include "core/runtime/control_characters.h"
#include "core/runtime/output_file.h"
#include "core/runtime/utf8.h"

namespace attention {
namespace {

/// The number of last bytes of `text` that begin a character without ending it.
size_t UnfinishedBytes(absl::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if (byte >= 0xC0) {
      const size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return whole > back ? back : 0;
    }
  }
  return 0;
}

}  // namespace

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path != "-") {
    return WriteFile(path, {text});
  }
  std::cout << text << std::flush;
  return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
}

absl::Status CheckOtherFile(const std::string& path, const std::vector<std::string>& used) {
  namespace fs = std::filesystem;
  std::error_code error;  // of files that do not exist
  const fs::file_status found = fs::status(path, error);
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    return absl::OkStatus();
  }
  for (const std::string& other : used) {
    const bool is_same = fs::equivalent(path, other, error) ||
                         fs::weakly_canonical(path, error) == fs::weakly_canonical(other, error);
    if (!other.empty() && other != "-" && is_same) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected another file than ", other, ", which would be replaced"));
    }
  }
  return absl::OkStatus();
}

void PrintText(absl::string_view text) { std::cout << ShownText(text) << std::flush; }

void PrintError(absl::string_view text) { std::cerr << "attend: " << ShownText(text) << "\n"; }

std::string JsonText(const nlohmann::json& json, int indent) {
  const std::string dumped =
      json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::string text;
  for (absl::string_view rest = dumped; !rest.empty();) {
    const Character first = FirstCharacter(rest).value_or(Character{0xFFFD, 1});
    const absl::string_view bytes = rest.substr(0, first.num_bytes);
    const bool is_plain = (first.code >= ' ' && first.code < 0x7F) || first.code == '\n';
    absl::StrAppend(&text, is_plain || ShownLine(bytes) == bytes ? bytes : JsonEscape(first.code));
    rest.remove_prefix(first.num_bytes);
  }
  return text;
}

std::string TerminalText::Add(absl::string_view bytes) {
  held_.append(bytes.data(), bytes.size());
  std::string unfinished = held_.substr(held_.size() - UnfinishedBytes(held_));
  held_.resize(held_.size() - unfinished.size());
  return Printable(std::exchange(held_, std::move(unfinished)));
}

std::string TerminalText::Rest() { return Printable(std::exchange(held_, "")); }

}  // namespace attention
