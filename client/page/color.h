// Colours that people with any kind of colour vision can tell apart, on paper and on dark screens.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace attention {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Rgb&) const = default;
};

/// "#0a141e".
std::string Hex(Rgb color);

/// Contrast of two colours, 1..21 (WCAG 2.2: text wants 4.5, lines and marks 3).
double Contrast(Rgb a, Rgb b);

/// Of a sequential scale, dark blue at 0 by way of teal and green to light yellow at 1. Even steps
/// look even: in the colour space Oklab (Ottosson 2020) lightness rises evenly and hue turns
/// evenly, so it reads in greyscale and for colour-blind people as well. `position` is clamped to
/// [0, 1].
Rgb SequentialColor(double position);

/// Colours of a page, in light or in dark.
struct Theme {
  Rgb background;
  Rgb surface;  // of what lies on the background
  Rgb text;
  Rgb muted;  // text of less weight
  Rgb grid;   // lines that may be overlooked
  Rgb accent;
  Rgb good;
  Rgb warning;
  Rgb bad;
  /// Of lines in one chart, in the order of use. The nearest two are 0.13 apart in Oklab for
  /// people without red or without green cones (Machado, Oliveira and Fernandes 2009), and each
  /// has a contrast of 3 or more with the surface.
  std::array<Rgb, 8> series;
};
const Theme& LightTheme();
const Theme& DarkTheme();

/// CSS that gives every page its colours: --background, --surface, --text, --muted, --grid,
/// --accent, --good, --warning, --bad, --series-1 to --series-8; light, dark where the reader
/// prefers it, and light on paper.
std::string ThemeStyle();

}  // namespace attention
