#include "client/page/color.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"

namespace attention {
namespace {

/// A colour in linear sRGB. Screens can show components of 0..1.
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

/// Converts as Ottosson, "A perceptual color space for image processing", 2020.
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

/// Encodes a linear component as sRGB does (IEC 61966-2-1).
uint8_t Encode(double linear) {
  const double light = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1.0 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255.0 * encoded));
}

}  // namespace

std::string Hex(Rgb color) {
  return absl::StrFormat("#%02x%02x%02x", color.red, color.green, color.blue);
}

Rgb SequentialColor(double position) {
  constexpr double kDegree = std::numbers::pi / 180.0;
  const double t = std::clamp(position, 0.0, 1.0);
  // Chroma stays just below what sRGB can show at each lightness and hue, so that no component is
  // clipped.
  const double chroma = 0.088 + 0.034 * std::pow(1.0 - t, 8) + 0.065 * std::pow(t, 4);
  const LinearRgb linear = ToLinear(
      {.lightness = 0.22 + 0.72 * t, .chroma = chroma, .hue = (290.0 - 180.0 * t) * kDegree});
  return {Encode(linear.red), Encode(linear.green), Encode(linear.blue)};
}

}  // namespace attention
