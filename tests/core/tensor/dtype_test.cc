#include "core/tensor/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kNumPatterns = 1 << 16;

// The values of non-negative finite 16-bit floats in order, by their definition.
std::vector<double> Magnitudes(int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> values;
  for (int exponent = 0; exponent < (1 << exponent_bits) - 1; ++exponent) {
    for (int mantissa = 0; mantissa < 1 << mantissa_bits; ++mantissa) {
      const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
      values.push_back(std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits));
    }
  }
  return values;
}

// Checks the rounding of all floats by its steps: it can only change at the midpoint of two
// neighbours.
template <typename Round>
void ExpectRoundsToNearestEven(const std::vector<double>& magnitudes, Round round) {
  int mistakes = 0;
  for (uint32_t low = 0; low + 1 < magnitudes.size(); ++low) {
    const float middle = static_cast<float>((magnitudes[low] + magnitudes[low + 1]) / 2);
    const uint32_t even = low + low % 2;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float signed_middle = sign ? -middle : middle;
      mistakes += round(std::nextafter(signed_middle, 0.0f)) != (low | sign);
      mistakes += round(signed_middle) != (even | sign);
      mistakes +=
          round(std::nextafter(signed_middle, sign ? -kInfinity : kInfinity)) != ((low + 1) | sign);
    }
  }
  EXPECT_EQ(mistakes, 0);
}

TEST(DtypeTest, NamesAndSizesAreThoseOfTheWire) {
  EXPECT_EQ(Name(Dtype::kF32), "FP32");
  EXPECT_EQ(Name(Dtype::kBf16), "BF16");
  EXPECT_EQ(Name(Dtype::kF16), "FP16");
  EXPECT_EQ(SizeOf(Dtype::kF32), 4u);
  EXPECT_EQ(SizeOf(Dtype::kBf16), 2u);
  EXPECT_EQ(SizeOf(Dtype::kF16), 2u);
}

TEST(DtypeTest, EveryF16WidensExactly) {
  const std::vector<double> magnitudes = Magnitudes(5, 10);
  ASSERT_EQ(magnitudes.size(), 0x7c00u);
  for (uint32_t bits = 0; bits < magnitudes.size(); ++bits) {
    ASSERT_EQ(ToFloat(F16{static_cast<uint16_t>(bits)}), magnitudes[bits]) << bits;
    ASSERT_EQ(ToFloat(F16{static_cast<uint16_t>(bits | 0x8000)}), -magnitudes[bits]) << bits;
  }
  EXPECT_TRUE(std::signbit(ToFloat(F16{0x8000})));
  EXPECT_EQ(ToFloat(F16{0x7c00}), kInfinity);
  EXPECT_EQ(ToFloat(F16{0xfc00}), -kInfinity);
}

TEST(DtypeTest, EveryBf16WidensExactly) {
  const std::vector<double> magnitudes = Magnitudes(8, 7);
  ASSERT_EQ(magnitudes.size(), 0x7f80u);
  for (uint32_t bits = 0; bits < magnitudes.size(); ++bits) {
    ASSERT_EQ(ToFloat(Bf16{static_cast<uint16_t>(bits)}), magnitudes[bits]) << bits;
    ASSERT_EQ(ToFloat(Bf16{static_cast<uint16_t>(bits | 0x8000)}), -magnitudes[bits]) << bits;
  }
  EXPECT_EQ(ToFloat(Bf16{0x7f80}), kInfinity);
}

TEST(DtypeTest, F16RoundsToNearestTiesToEven) {
  ExpectRoundsToNearestEven(Magnitudes(5, 10), [](float value) { return ToF16(value).bits; });
}

TEST(DtypeTest, Bf16RoundsToNearestTiesToEven) {
  ExpectRoundsToNearestEven(Magnitudes(8, 7), [](float value) { return ToBf16(value).bits; });
}

TEST(DtypeTest, OverflowBecomesInfinity) {
  EXPECT_EQ(ToF16(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToF16(-65536.0f).bits, 0xfc00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(ToF16(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(ToBf16(-kInfinity).bits, 0xff80);
}

TEST(DtypeTest, TinyValuesBecomeSignedZero) {
  EXPECT_EQ(ToF16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(ToBf16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TEST(DtypeTest, NanStaysNanWhateverItsPayload) {
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(ToFloat(ToBf16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(ToFloat(ToF16(nan)))) << bits;
  }
  for (int mantissa = 1; mantissa < 1 << 10; ++mantissa) {
    ASSERT_TRUE(std::isnan(ToFloat(F16{static_cast<uint16_t>(0x7c00 | mantissa)}))) << mantissa;
  }
}

// Every 16-bit pattern as f32, NaN left out: which NaN comes out is nobody's promise.
std::vector<float> AllFinite(Dtype dtype) {
  std::vector<uint16_t> bits(kNumPatterns);
  std::iota(bits.begin(), bits.end(), uint16_t{0});
  std::vector<float> values;
  for (const uint16_t pattern : bits) {
    const float value = dtype == Dtype::kF16 ? ToFloat(F16{pattern}) : ToFloat(Bf16{pattern});
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  return values;
}

class ConvertTest : public ::testing::TestWithParam<std::pair<Dtype, Dtype>> {};

// One element at a time, through f32.
std::vector<std::byte> ConvertedOneByOne(const std::vector<float>& values, Dtype dtype) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t narrow = dtype == Dtype::kF16 ? ToF16(values[i]).bits : ToBf16(values[i]).bits;
    const void* element = dtype == Dtype::kF32 ? static_cast<const void*>(&values[i]) : &narrow;
    std::memcpy(bytes.data() + i * SizeOf(dtype), element, SizeOf(dtype));
  }
  return bytes;
}

TEST_P(ConvertTest, EqualsTheScalarConversionAtAnyAlignment) {
  const auto [from, to] = GetParam();
  const std::vector<float> values = AllFinite(from);
  const std::vector<std::byte> source = ConvertedOneByOne(values, from);
  const std::vector<std::byte> expected = ConvertedOneByOne(values, to);
  for (const size_t shift : {0, 1, 2}) {
    std::vector<std::byte> shifted(source.size() + shift);
    std::copy(source.begin(), source.end(), shifted.begin() + shift);
    std::vector<std::byte> target(expected.size() + shift);
    Convert(from, shifted.data() + shift, to, target.data() + shift, std::ssize(values));
    target.erase(target.begin(), target.begin() + shift);
    EXPECT_EQ(target, expected) << "shift " << shift;
  }
}

constexpr Dtype kAll[] = {Dtype::kF32, Dtype::kBf16, Dtype::kF16};

std::vector<std::pair<Dtype, Dtype>> AllPairs() {
  std::vector<std::pair<Dtype, Dtype>> pairs;
  for (const Dtype from : kAll) {
    for (const Dtype to : kAll) {
      pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(AllPairs, ConvertTest, ::testing::ValuesIn(AllPairs()),
                         [](const auto& test) {
                           return std::string(Name(test.param.first)) + "To" +
                                  std::string(Name(test.param.second));
                         });

TEST(DtypeTest, ConvertWritesNothingPastCount) {
  for (const Dtype from : kAll) {
    for (const Dtype to : kAll) {
      for (const size_t count : {0, 1, 3, 17}) {
        const std::vector<std::byte> source(count * SizeOf(from));
        std::vector<std::byte> target(count * SizeOf(to) + 8, std::byte{0xab});
        std::vector<std::byte> expected(count * SizeOf(to));
        expected.resize(expected.size() + 8, std::byte{0xab});
        Convert(from, source.data(), to, target.data(), static_cast<int64_t>(count));
        EXPECT_EQ(target, expected) << Name(from) << " to " << Name(to) << ", count " << count;
      }
    }
  }
}

}  // namespace
}  // namespace attention
