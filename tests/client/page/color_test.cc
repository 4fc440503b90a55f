#include "client/page/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "client/page/asset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {

extern const Asset kBaseStyle;

namespace {

using ::testing::Ge;
using ::testing::Le;

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector Times(const Matrix& matrix, const Vector& vector) {
  Vector product{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      product[i] += matrix[i][j] * vector[j];
    }
  }
  return product;
}

double Decoded(uint8_t byte) {
  const double encoded = byte / 255.0;
  return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
}

// How linear sRGB looks to people with all cones, without red and without green ones (Machado,
// Oliveira and Fernandes 2009, severity 1).
constexpr Matrix kTrichromat = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kProtanope = {{{0.152286, 1.052583, -0.204868},
                                {0.114503, 0.786281, 0.099216},
                                {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranope = {{{0.367322, 0.860646, -0.227968},
                                  {0.280085, 0.672501, 0.047413},
                                  {-0.011820, 0.042940, 0.968881}}};

/// In Oklab (Ottosson 2020), as `eye` sees it.
Vector Seen(Rgb color, const Matrix& eye) {
  constexpr Matrix kToCones = {{{0.4122214708, 0.5363325363, 0.0514459929},
                                {0.2119034982, 0.6806995451, 0.1073969566},
                                {0.0883024619, 0.2817188376, 0.6299787005}}};
  constexpr Matrix kToLab = {{{0.2104542553, 0.7936177850, -0.0040720468},
                              {1.9779984951, -2.4285922050, 0.4505937099},
                              {0.0259040371, 0.7827717662, -0.8086757660}}};
  Vector linear = Times(eye, {Decoded(color.red), Decoded(color.green), Decoded(color.blue)});
  for (double& channel : linear) {
    channel = std::clamp(channel, 0.0, 1.0);
  }
  Vector cones = Times(kToCones, linear);
  for (double& cone : cones) {
    cone = std::cbrt(cone);
  }
  return Times(kToLab, cones);
}

double Distance(const Vector& a, const Vector& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

constexpr int kSteps = 24;

TEST(ColorTest, EvenStepsOfTheSequentialScaleLookEven) {
  std::vector<double> distances;
  for (int i = 0; i < kSteps; ++i) {
    distances.push_back(Distance(Seen(SequentialColor(i / double{kSteps}), kTrichromat),
                                 Seen(SequentialColor((i + 1) / double{kSteps}), kTrichromat)));
  }
  const auto [least, most] = std::minmax_element(distances.begin(), distances.end());
  EXPECT_LT(*most / *least, 1.5);
}

TEST(ColorTest, TheSequentialScaleGetsLighterForEveryEye) {
  for (const Matrix& eye : {kTrichromat, kProtanope, kDeuteranope}) {
    for (int i = 0; i < kSteps; ++i) {
      EXPECT_LT(Seen(SequentialColor(i / double{kSteps}), eye)[0] + 0.01,
                Seen(SequentialColor((i + 1) / double{kSteps}), eye)[0])
          << i;
    }
  }
}

TEST(ColorTest, TheSequentialScaleEndsAtItsEnds) {
  EXPECT_EQ(SequentialColor(-1.0), SequentialColor(0.0));
  EXPECT_EQ(SequentialColor(2.0), SequentialColor(1.0));
  EXPECT_EQ(Hex({0, 10, 255}), "#000aff");
}

using Theme = std::map<std::string, Rgb>;

/// The custom properties of base.css, light and dark.
std::vector<Theme> Themes() {
  std::vector<Theme> themes;
  const std::regex property("(:root \\{)|--([a-z0-9-]+): #([0-9a-f]{6});");
  const std::string css = kBaseStyle.text;
  for (std::sregex_iterator it(css.begin(), css.end(), property), end; it != end; ++it) {
    if ((*it)[1].matched) {
      themes.emplace_back();
    } else {
      const auto value = std::stoul((*it)[3].str(), nullptr, 16);
      themes.back()[(*it)[2]] = {static_cast<uint8_t>(value >> 16),
                                 static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
    }
  }
  return themes;
}

std::vector<Rgb> SeriesOf(const Theme& theme) {
  std::vector<Rgb> series;
  for (int i = 1; i <= 8; ++i) {
    series.push_back(theme.at("series-" + std::to_string(i)));
  }
  return series;
}

/// Contrast of two colours, 1..21 (WCAG 2.2).
double Contrast(Rgb a, Rgb b) {
  const auto luminance = [](Rgb color) {
    return 0.2126 * Decoded(color.red) + 0.7152 * Decoded(color.green) +
           0.0722 * Decoded(color.blue);
  };
  const auto [darker, lighter] = std::minmax({luminance(a), luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

TEST(ColorTest, WordsAndLinesStandOutOfEitherTheme) {
  ASSERT_EQ(Themes().size(), 2u);
  for (const Theme& theme : Themes()) {
    for (const char* const words : {"text", "muted", "accent", "good", "bad"}) {
      EXPECT_THAT(Contrast(theme.at(words), theme.at("surface")), Ge(4.5)) << words;
      EXPECT_THAT(Contrast(theme.at(words), theme.at("background")), Ge(4.5)) << words;
    }
    for (const Rgb line : SeriesOf(theme)) {
      EXPECT_THAT(Contrast(line, theme.at("surface")), Ge(3.0)) << Hex(line);
    }
    EXPECT_THAT(Contrast(theme.at("grid"), theme.at("surface")), Le(1.6));
  }
}

TEST(ColorTest, SeriesAreToldApartByEveryEye) {
  for (const Theme& theme : Themes()) {
    const std::vector<Rgb> series = SeriesOf(theme);
    for (const Matrix& eye : {kTrichromat, kProtanope, kDeuteranope}) {
      for (size_t i = 0; i < series.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_GT(Distance(Seen(series[i], eye), Seen(series[j], eye)), 0.13)
              << Hex(series[i]) << " " << Hex(series[j]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attention
