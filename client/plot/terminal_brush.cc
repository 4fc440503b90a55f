#include "client/plot/terminal_brush.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/color.h"

namespace attention {
namespace {

constexpr char kReset[] = "\x1b[0m";

/// The nearest of the 6 x 6 x 6 colours that follow the first 16 of a terminal's 256.
int CubeColor(Rgb color) {
  const auto level = [](uint8_t channel) {
    constexpr int kLevels[] = {0, 95, 135, 175, 215, 255};
    int best = 0;
    for (int i = 1; i < 6; ++i) {
      best = std::abs(kLevels[i] - channel) < std::abs(kLevels[best] - channel) ? i : best;
    }
    return best;
  };
  return 16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue);
}

const char* Shade(const TerminalCell& cell) {
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  return kShades[std::clamp(static_cast<int>(std::ceil(cell.share * 4)), 0, 4)];
}

}  // namespace

std::string TerminalBrush::Wide(const TerminalCell& cell, int64_t columns) const {
  std::string text;
  for (int64_t i = 0; i < columns; ++i) {
    text += cell.is_hidden ? "·" : has_colors() ? " " : Shade(cell);
  }
  return cell.is_hidden || !has_colors() ? text : absl::StrCat(Escape(48, cell), text, kReset);
}

std::string TerminalBrush::Halves(const TerminalCell& upper, const TerminalCell& lower) const {
  if (upper.is_hidden && lower.is_hidden) {
    return "·";
  }
  if (upper.is_hidden || lower.is_hidden) {
    return upper.is_hidden ? absl::StrCat(Escape(38, lower), "▄", kReset)
                           : absl::StrCat(Escape(38, upper), "▀", kReset);
  }
  return absl::StrCat(Escape(38, upper), Escape(48, lower), "▀", kReset);
}

/// `layer`: 38 of the character, 48 of what is behind it (ECMA-48, ISO 8613-6).
std::string TerminalBrush::Escape(int layer, const TerminalCell& cell) const {
  const Rgb color = SequentialColor(cell.share);
  return colors_ == TerminalColors::k24Bit
             ? absl::StrFormat("\x1b[%d;2;%d;%d;%dm", layer, color.red, color.green, color.blue)
             : absl::StrFormat("\x1b[%d;5;%dm", layer, CubeColor(color));
}

}  // namespace attention
