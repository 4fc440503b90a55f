#include "client/top/screen_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention {
namespace {

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

std::string ForTerminal(const std::string& text) {
  std::string printable;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    // U+0080 to U+009F control terminals too.
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || is_c1) {
      printable.push_back('?');
      i += is_c1 ? 1 : 0;
    } else {
      printable.push_back(text[i]);
    }
  }
  return printable;
}

int Columns(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Cut(const std::string& text, int width) {
  if (Columns(text) <= width) {
    return text;
  }
  std::string cut;
  int columns = 0;
  for (const char c : text) {
    columns += IsContinuation(c) ? 0 : 1;
    if (columns >= width) {
      break;
    }
    cut.push_back(c);
  }
  return width > 0 ? absl::StrCat(cut, "~") : "";
}

std::string PadRight(const std::string& text, int width) {
  const std::string cut = Cut(text, width);
  return absl::StrCat(cut, std::string(std::max(0, width - Columns(cut)), ' '));
}

std::string PadLeft(const std::string& text, int width) {
  const std::string cut = Cut(text, width);
  return absl::StrCat(std::string(std::max(0, width - Columns(cut)), ' '), cut);
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string UptimeText(int64_t ns) {
  const int64_t s = ns / 1'000'000'000;
  if (s >= 86400) {
    return absl::StrFormat("%dd %dh", s / 86400, s / 3600 % 24);
  }
  if (s >= 3600) {
    return absl::StrFormat("%dh %02dm", s / 3600, s / 60 % 60);
  }
  return s >= 60 ? absl::StrFormat("%dm %02ds", s / 60, s % 60) : absl::StrFormat("%ds", s);
}

std::string NumberText(std::optional<double> value) {
  if (!value.has_value()) {
    return "-";
  }
  const double size = std::abs(*value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, *value);
}

}  // namespace attention
