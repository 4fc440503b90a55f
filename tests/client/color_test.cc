#include "client/page/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::Ge;
using ::testing::HasSubstr;
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
  EXPECT_GT(Contrast(SequentialColor(0.0), SequentialColor(1.0)), 12.0);
}

TEST(ColorTest, ContrastIsThatOfTheStandard) {
  EXPECT_DOUBLE_EQ(Contrast({0, 0, 0}, {255, 255, 255}), 21.0);
  EXPECT_DOUBLE_EQ(Contrast({255, 255, 255}, {255, 255, 255}), 1.0);
  EXPECT_NEAR(Contrast({0x76, 0x76, 0x76}, {255, 255, 255}), 4.54, 0.01);
}

TEST(ColorTest, WordsAndLinesStandOutOfEitherTheme) {
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    for (const Rgb words :
         {theme->text, theme->muted, theme->accent, theme->good, theme->warning, theme->bad}) {
      EXPECT_THAT(Contrast(words, theme->surface), Ge(4.5)) << Hex(words);
      EXPECT_THAT(Contrast(words, theme->background), Ge(4.5)) << Hex(words);
    }
    for (const Rgb line : theme->series) {
      EXPECT_THAT(Contrast(line, theme->surface), Ge(3.0)) << Hex(line);
    }
    EXPECT_THAT(Contrast(theme->grid, theme->surface), Le(1.6));
  }
}

TEST(ColorTest, SeriesAreToldApartByEveryEye) {
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    for (const Matrix& eye : {kTrichromat, kProtanope, kDeuteranope}) {
      for (size_t i = 0; i < theme->series.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_GT(Distance(Seen(theme->series[i], eye), Seen(theme->series[j], eye)), 0.13)
              << Hex(theme->series[i]) << " " << Hex(theme->series[j]);
        }
      }
    }
  }
}

TEST(ColorTest, StylesNameEveryColour) {
  EXPECT_EQ(Hex({0, 10, 255}), "#000aff");
  EXPECT_THAT(ThemeStyle(), HasSubstr("--series-8:" + Hex(LightTheme().series[7]) + "}"));
  EXPECT_THAT(ThemeStyle(), HasSubstr("--series-1:" + Hex(DarkTheme().series[0]) + ";"));
}

}  // namespace
}  // namespace attention
