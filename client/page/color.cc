#include "client/page/color.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention {
namespace {

/// sRGB, linear in light, 0..1 where a screen can show it.
struct LinearRgb {
  double red = 0.0;
  double green = 0.0;
  double blue = 0.0;
};

struct Oklch {
  double lightness = 0.0;
  double chroma = 0.0;
  double hue = 0.0;  // radians
};

/// Ottosson, "A perceptual color space for image processing", 2020.
LinearRgb ToLinear(const Oklch& color) {
  const double a = color.chroma * std::cos(color.hue);
  const double b = color.chroma * std::sin(color.hue);
  const double l = std::pow(color.lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(color.lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(color.lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {.red = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          .green = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          .blue = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

/// IEC 61966-2-1.
uint8_t Encode(double linear) {
  const double light = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1.0 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255.0 * encoded));
}

double Decode(uint8_t byte) {
  const double encoded = byte / 255.0;
  return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
}

double Luminance(Rgb color) {
  return 0.2126 * Decode(color.red) + 0.7152 * Decode(color.green) + 0.0722 * Decode(color.blue);
}

std::string Properties(const Theme& theme) {
  std::string css = absl::StrCat("--background:", Hex(theme.background),
                                 ";--surface:", Hex(theme.surface), ";--text:", Hex(theme.text),
                                 ";--muted:", Hex(theme.muted), ";--grid:", Hex(theme.grid),
                                 ";--accent:", Hex(theme.accent), ";--good:", Hex(theme.good),
                                 ";--warning:", Hex(theme.warning), ";--bad:", Hex(theme.bad));
  for (size_t i = 0; i < theme.series.size(); ++i) {
    absl::StrAppend(&css, ";--series-", i + 1, ":", Hex(theme.series[i]));
  }
  return css;
}

}  // namespace

std::string Hex(Rgb color) {
  return absl::StrFormat("#%02x%02x%02x", color.red, color.green, color.blue);
}

double Contrast(Rgb a, Rgb b) {
  const auto [darker, lighter] = std::minmax({Luminance(a), Luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

Rgb SequentialColor(double position) {
  constexpr double kDegree = std::numbers::pi / 180.0;
  const double t = std::clamp(position, 0.0, 1.0);
  // Chroma stays just below what sRGB can show at each lightness and hue, so that nothing is cut.
  const double chroma = 0.088 + 0.034 * std::pow(1.0 - t, 8) + 0.065 * std::pow(t, 4);
  const LinearRgb linear = ToLinear(
      {.lightness = 0.22 + 0.72 * t, .chroma = chroma, .hue = (290.0 - 180.0 * t) * kDegree});
  return {Encode(linear.red), Encode(linear.green), Encode(linear.blue)};
}

const Theme& LightTheme() {
  static constexpr Theme kTheme = {.background = {0xf6, 0xf7, 0xf9},
                                   .surface = {0xff, 0xff, 0xff},
                                   .text = {0x1b, 0x20, 0x28},
                                   .muted = {0x5a, 0x64, 0x72},
                                   .grid = {0xe3, 0xe7, 0xec},
                                   .accent = {0x0b, 0x5f, 0xc4},
                                   .good = {0x0a, 0x7a, 0x3c},
                                   .warning = {0x94, 0x5b, 0x00},
                                   .bad = {0xc0, 0x1f, 0x2e},
                                   .series = {{{0x1e, 0x94, 0xff},
                                               {0xe5, 0x68, 0x06},
                                               {0x7c, 0x44, 0xc3},
                                               {0x1e, 0x62, 0x71},
                                               {0x58, 0x01, 0x2b},
                                               {0x5c, 0x9e, 0x91},
                                               {0x00, 0x19, 0x83},
                                               {0x8b, 0x3e, 0x09}}}};
  return kTheme;
}

const Theme& DarkTheme() {
  static constexpr Theme kTheme = {.background = {0x0f, 0x12, 0x16},
                                   .surface = {0x14, 0x17, 0x1c},
                                   .text = {0xe6, 0xe9, 0xee},
                                   .muted = {0x9a, 0xa5, 0xb4},
                                   .grid = {0x2b, 0x31, 0x3a},
                                   .accent = {0x6c, 0xb2, 0xff},
                                   .good = {0x4f, 0xc9, 0x80},
                                   .warning = {0xf0, 0xb3, 0x4a},
                                   .bad = {0xff, 0x7b, 0x80},
                                   .series = {{{0x38, 0x6b, 0xe2},
                                               {0xf6, 0x8c, 0x11},
                                               {0x96, 0xa4, 0xf6},
                                               {0x01, 0x86, 0x83},
                                               {0xcb, 0x39, 0x04},
                                               {0x4f, 0xc3, 0x9c},
                                               {0xc6, 0xeb, 0xfd},
                                               {0xf2, 0xed, 0x2b}}}};
  return kTheme;
}

std::string ThemeStyle() {
  return absl::StrCat(":root{color-scheme:light dark;", Properties(LightTheme()),
                      "}\n@media screen and (prefers-color-scheme:dark){:root{",
                      Properties(DarkTheme()), "}}\n");
}

}  // namespace attention
