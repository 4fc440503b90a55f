// The colours of attention weights. The colours of pages are in base.css.
#pragma once

#include <cstdint>
#include <string>

namespace attention {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Rgb&) const = default;
};

/// Returns the colour in hexadecimal: "#0a141e".
std::string Hex(Rgb color);

/// Returns the colour at `position`, clamped to [0, 1], of a scale from dark blue by way of teal
/// and green to light yellow. Even steps look even: in the colour space Oklab (Ottosson 2020)
/// lightness rises evenly and hue changes evenly, so the scale reads in greyscale and for
/// colour-blind people as well.
Rgb SequentialColor(double position);

}  // namespace attention
