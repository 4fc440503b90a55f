// Conversion and packing of rows on every instruction set: exact or rounded to nearest even, every
// length from none to three vectors, guard pages behind.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tensor/dtype.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

using Limits = std::numeric_limits<float>;

constexpr Dtype kAllDtypes[] = {Dtype::kF32, Dtype::kBf16, Dtype::kF16};

/// Numbers of all kinds: ties, numbers that overflow f16 and bf16, subnormal, infinite.
std::vector<float> ManyNumbers(int64_t count) {
  const std::vector<float> special = {
      0.0f,           -1.0f,
      1.00390625f,     // between two bf16, the lower one even
      1.01171875f,     // and the upper one
      1.00048828125f,  // between two f16
      65519.0f,       65520.0f, 0x1p-24f, 0x1.8p-25f, 0x1p-140f, Limits::max(), -Limits::infinity(),
      -3.14159274f};
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t turn = i / std::ssize(special);
    numbers[i] = special[i % special.size()] * (1.0f + 0.37f * static_cast<float>(turn));
  }
  return numbers;
}

std::vector<std::byte> Converted(const std::vector<float>& numbers, Dtype dtype) {
  std::vector<std::byte> bytes(numbers.size() * SizeOf(dtype));
  Convert(Dtype::kF32, numbers.data(), dtype, bytes.data(), std::ssize(numbers));
  return bytes;
}

std::vector<float> Floats(const std::vector<std::byte>& bytes, Dtype dtype) {
  std::vector<float> numbers(bytes.size() / SizeOf(dtype));
  Convert(dtype, bytes.data(), Dtype::kF32, numbers.data(), std::ssize(numbers));
  return numbers;
}

class ConversionTest : public InstructionSetTest {
 protected:
  std::vector<std::byte> Stored(const std::vector<float>& numbers, Dtype dtype,
                                const float* row_sum = nullptr) const {
    const auto count = std::ssize(numbers);
    const GuardedArray<float> source(numbers);
    GuardedArray<std::byte> target(count * static_cast<int64_t>(SizeOf(dtype)));
    kernels().store({.source = source.data(),
                     .source_stride = count,
                     .rows = 1,
                     .cols = count,
                     .row_sum = row_sum,
                     .target = target.data(),
                     .target_dtype = dtype,
                     .target_stride = count});
    return target.ToVector();
  }
};
INSTANTIATE_TEST_SUITE_P(All, ConversionTest, ::testing::ValuesIn(InstructionSets()), SetName);

// bf16 below 2^-126 becomes 0 where the instruction says so.
TEST_P(ConversionTest, StoringRoundsToNearestEven) {
  for (const Dtype dtype : kAllDtypes) {
    for (int64_t count = 0; count <= kThreeVectors; ++count) {
      const std::vector<float> numbers = ManyNumbers(count);
      const std::vector<float> actual = Floats(Stored(numbers, dtype), dtype);
      const std::vector<float> expected = Floats(Converted(numbers, dtype), dtype);
      for (int64_t i = 0; i < count; ++i) {
        if (std::abs(numbers[i]) < Limits::min()) {
          ASSERT_NEAR(actual[i], expected[i], 0x1p-126) << Name(dtype) << ", " << i;
        } else {
          ASSERT_EQ(actual[i], expected[i]) << Name(dtype) << ", " << i << " of " << count;
        }
      }
    }
  }
}

TEST_P(ConversionTest, StoringKeepsNanAndDividesByTheSum) {
  for (const Dtype dtype : kAllDtypes) {
    const float sum = 4;
    const std::vector<float> divided =
        Floats(Stored({Limits::quiet_NaN(), 2, -0.0f}, dtype, &sum), dtype);
    EXPECT_TRUE(std::isnan(divided[0]));
    EXPECT_EQ(divided[1], 0.5f);
    EXPECT_FALSE(std::signbit(divided[2]));
    const float nothing = 0;
    EXPECT_EQ(Floats(Stored({Limits::quiet_NaN(), 2}, dtype, &nothing), dtype),
              (std::vector<float>{0, 0}));
  }
}

TEST_P(ConversionTest, CopyingIsExactAndPadsWithZeros) {
  for (const Dtype dtype : kAllDtypes) {
    for (int64_t cols = 0; cols <= kThreeVectors; ++cols) {
      const int64_t width = (cols + 15) / 16 * 16;
      const std::vector<float> numbers = ManyNumbers(2 * cols);
      const GuardedArray<std::byte> source(Converted(numbers, dtype));
      GuardedArray<float> target(std::vector<float>(2 * width, 7.0f));
      kernels().copy_rows({source.data(), dtype, cols, 2, cols}, Dtype::kF32, width,
                          /*negate=*/true, target.data());
      const std::vector<float> expected = Floats(Converted(numbers, dtype), dtype);
      for (int64_t i = 0; i < 2 * width; ++i) {
        const int64_t col = i % width;
        ASSERT_EQ(target[i], col < cols ? -expected[i / width * cols + col] : 0.0f)
            << Name(dtype) << ", " << i << ", " << cols << " columns";
      }
    }
  }
}

// Copying and packing take f32 and f16 to bf16 only after they were prepared.
TEST_P(ConversionTest, PreparingRoundsToNearestEven) {
  for (const Dtype from : kAllDtypes) {
    for (const Dtype to : kAllDtypes) {
      for (int64_t cols = 0; cols <= kThreeVectors; ++cols) {
        const std::vector<std::byte> numbers = Converted(ManyNumbers(2 * cols), from);
        const GuardedArray<std::byte> source(numbers);
        GuardedArray<std::byte> target(2 * cols * static_cast<int64_t>(SizeOf(to)));
        kernels().prepare_rows({.source = {source.data(), from, cols, 2, cols}}, to, target.data());
        ASSERT_EQ(target.ToVector(), Converted(Floats(numbers, from), to))
            << Name(from) << " to " << Name(to) << ", " << cols << " columns";
      }
    }
  }
}

// NaN, too: the bits are only copied.
TEST_P(ConversionTest, CopyingBf16ToBf16KeepsItsBits) {
  for (int64_t cols = 0; cols <= kThreeVectors; ++cols) {
    const int64_t width = (cols + 15) / 16 * 16;
    std::vector<Bf16> numbers(2 * cols);
    for (int64_t i = 0; i < 2 * cols; ++i) {
      numbers[i].bits = static_cast<uint16_t>(i * 7919 + 0x7f70);
    }
    const GuardedArray<Bf16> source(numbers);
    for (const bool negate : {false, true}) {
      GuardedArray<Bf16> target(std::vector<Bf16>(2 * width, Bf16{7}));
      kernels().copy_rows({source.data(), Dtype::kBf16, cols, 2, cols}, Dtype::kBf16, width, negate,
                          target.data());
      for (int64_t i = 0; i < 2 * width; ++i) {
        const int64_t col = i % width;
        const int expected =
            col < cols ? numbers[i / width * cols + col].bits ^ (negate ? 0x8000 : 0) : 0;
        ASSERT_EQ(target[i].bits, expected) << i << ", " << cols << " columns";
      }
    }
  }
}

/// Some rows of a [rows, cols] tensor.
struct PackedExtents {
  int64_t rows, cols;
};

/// Every number of columns with few rows, and every number of rows with few columns.
std::vector<PackedExtents> AllExtents() {
  std::vector<PackedExtents> all;
  for (int64_t i = 0; i <= kThreeVectors; ++i) {
    all.push_back({i % 7 + 1, i});
    all.push_back({i + kKeyBlock - kThreeVectors, i % 37 + 1});
    all.push_back({i % 7, 19});
  }
  return all;
}

std::vector<float> FiniteNumbers(int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>(i % 255 + 1) * (i % 2 == 0 ? 0.5f : -1.0f);
  }
  return numbers;
}

/// Element (row, col) of FiniteNumbers, zero outside.
float At(const std::vector<float>& numbers, const PackedExtents& x, int64_t row, int64_t col) {
  return row < x.rows && col < x.cols ? numbers[row * x.cols + col] : 0.0f;
}

TEST_P(ConversionTest, KeysArePackedTransposed) {
  for (const Dtype dtype : kAllDtypes) {
    for (const PackedExtents& x : AllExtents()) {
      const int64_t depth = (x.cols + 15) / 16 * 16;
      const std::vector<float> numbers = FiniteNumbers(x.rows * x.cols);
      const GuardedArray<std::byte> source(Converted(numbers, dtype));
      GuardedArray<float> target(depth * kKeyBlock);
      kernels().pack_transposed({source.data(), dtype, x.cols, x.rows, x.cols}, Dtype::kF32, depth,
                                target.data());
      for (int64_t i = 0; i < depth * kKeyBlock; ++i) {
        ASSERT_EQ(target[i], At(numbers, x, i % kKeyBlock, i / kKeyBlock))
            << Name(dtype) << ", " << x.rows << " x " << x.cols << ", " << i;
      }
    }
  }
}

TEST_P(ConversionTest, ValuesArePackedAsRows) {
  for (const Dtype dtype : kAllDtypes) {
    for (const PackedExtents& x : AllExtents()) {
      const int64_t width = (x.cols + 15) / 16 * 16;
      const std::vector<float> numbers = FiniteNumbers(x.rows * x.cols);
      const GuardedArray<std::byte> source(Converted(numbers, dtype));
      GuardedArray<float> target(kKeyBlock * width);
      ASSERT_TRUE(kernels().pack_rows({source.data(), dtype, x.cols, x.rows, x.cols}, Dtype::kF32,
                                      width, target.data()));
      for (int64_t i = 0; i < kKeyBlock * width; ++i) {
        ASSERT_EQ(target[i], At(numbers, x, i / width, i % width))
            << Name(dtype) << ", " << x.rows << " x " << x.cols << ", " << i;
      }
    }
  }
}

TEST_P(ConversionTest, Bf16IsPackedInPairs) {
  for (const PackedExtents& x : AllExtents()) {
    const int64_t width = (x.cols + 15) / 16 * 16;
    const std::vector<float> numbers = FiniteNumbers(x.rows * x.cols);
    const GuardedArray<std::byte> source(Converted(numbers, Dtype::kBf16));
    GuardedArray<Bf16> keys(width * kKeyBlock);
    GuardedArray<Bf16> values(kKeyBlock * width);
    const PackSource rows{source.data(), Dtype::kBf16, x.cols, x.rows, x.cols};
    kernels().pack_transposed(rows, Dtype::kBf16, width, keys.data());
    ASSERT_TRUE(kernels().pack_rows(rows, Dtype::kBf16, width, values.data()));
    for (int64_t i = 0; i < width * kKeyBlock; ++i) {
      ASSERT_EQ(ToFloat(keys[i]), At(numbers, x, i / 2 % kKeyBlock, i / 2 / kKeyBlock * 2 + i % 2));
      ASSERT_EQ(ToFloat(values[i]), At(numbers, x, i / 2 / width * 2 + i % 2, i / 2 % width));
    }
  }
}

TEST_P(ConversionTest, PackingFindsWhatIsNotFinite) {
  for (const Dtype dtype : kAllDtypes) {
    for (int64_t cols = 1; cols <= kThreeVectors; ++cols) {
      for (const float number : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
        std::vector<float> numbers = FiniteNumbers(3 * cols);
        numbers[3 * cols - 1] = number;
        const GuardedArray<std::byte> source(Converted(numbers, dtype));
        std::vector<float> target(kKeyBlock * kThreeVectors);
        ASSERT_FALSE(kernels().pack_rows({source.data(), dtype, cols, 3, cols}, Dtype::kF32,
                                         kThreeVectors, target.data()))
            << Name(dtype) << ", " << cols << " columns";
        if (dtype == Dtype::kBf16) {
          ASSERT_FALSE(kernels().pack_rows({source.data(), dtype, cols, 3, cols}, dtype,
                                           kThreeVectors, target.data()))
              << "as bf16, " << cols << " columns";
        }
      }
    }
  }
}

// Half of a step of 1/127 of the row's largest number.
TEST_P(ConversionTest, QuantisingIsWithinHalfAStep) {
  for (int64_t cols = 0; cols <= kThreeVectors; ++cols) {
    const int64_t width = (cols + 15) / 16 * 16;
    const std::vector<float> numbers = FiniteNumbers(cols);
    const GuardedArray<float> source(numbers);
    GuardedArray<uint8_t> values(width);
    float scale = 0;
    kernels().quantise_rows({source.data(), Dtype::kF32, cols, 1, cols},
                            {values.data(), width, &scale});
    for (int64_t i = 0; i < width; ++i) {
      const float number = i < cols ? numbers[i] : 0;
      ASSERT_NEAR(scale * (static_cast<float>(values[i]) - 128), number, 0.5001f * scale);
    }
  }
}

TEST_P(ConversionTest, QuantisingFindsWhatIsNotFinite) {
  for (const int64_t cols : {1, 17, 48, 511, 512, 513, 1100}) {  // over several chunks
    for (const float number : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
      for (const int64_t at : {int64_t{0}, cols / 2, cols - 1}) {
        std::vector<float> numbers = FiniteNumbers(cols);
        numbers[at] = number;
        const GuardedArray<float> source(numbers);
        GuardedArray<uint8_t> values(cols);
        float scale = 0;
        kernels().quantise_rows({source.data(), Dtype::kF32, cols, 1, cols},
                                {values.data(), cols, &scale});
        ASSERT_TRUE(std::isnan(scale)) << at << " of " << cols;
      }
    }
  }
}

// The row's largest product becomes 255; what is 0 stays 0 whatever its value's scale is.
TEST_P(ConversionTest, QuantisingProbabilitiesIsWithinHalfAStep) {
  for (int64_t cols = 16; cols <= kThreeVectors; cols += 16) {
    GuardedArray<float> scores(cols);
    GuardedArray<float> scales(cols);
    std::vector<float> products(cols);
    for (int64_t i = 0; i < cols; ++i) {
      scores[i] = i == 5 ? -Limits::infinity() : -static_cast<float>(i * 37 % 13);
      scales[i] = i == 5 ? Limits::quiet_NaN() : 0.5f + static_cast<float>(i % 3);
      products[i] = i == 5 ? 0 : std::exp2(scores[i]) * scales[i];
    }
    GuardedArray<uint8_t> target(cols);
    float row_max = -Limits::infinity();
    float row_sum = 0;
    float largest = 0;
    float row_scale = 0;
    kernels().softmax({.processor = kProcessors[0],
                       .scores = scores.data(),
                       .stride = cols,
                       .rows = 1,
                       .cols = cols,
                       .visible_end = &cols,
                       .scale_log2e = 1,
                       .row_max = &row_max,
                       .row_sum = &row_sum,
                       .is_first = true,
                       .value_scales = scales.data(),
                       .largest = &largest});
    EXPECT_EQ(largest, *std::max_element(products.begin(), products.end()));
    kernels().quantise_probabilities({.probabilities = scores.data(),
                                      .stride = cols,
                                      .rows = 1,
                                      .cols = cols,
                                      .largest = &largest,
                                      .target = target.data(),
                                      .row_scales = &row_scale});
    EXPECT_FLOAT_EQ(row_scale * 255, largest);
    for (int64_t i = 0; i < cols; ++i) {
      ASSERT_EQ(scores[i], products[i]);
      ASSERT_NEAR(row_scale * static_cast<float>(target[i]), products[i], 0.5001f * row_scale) << i;
    }
  }
}

// What is streamed as it is stored must be what the ukernels read after expansion.
TEST_P(ConversionTest, ExpandingIsExact) {
  const int64_t rows = 8;
  for (int64_t cols = 16; cols <= kThreeVectors; cols += 16) {
    std::vector<Bf16> pairs(rows * cols);
    std::vector<int8_t> fours(rows * cols);
    std::vector<float> scales(cols);
    for (int64_t i = 0; i < rows * cols; ++i) {
      pairs[i] = ToBf16(static_cast<float>(i) - 60);
      fours[i] = static_cast<int8_t>(i % 255 - 127);
      scales[i % cols] = 0.25f + static_cast<float>(i % cols);
    }
    const GuardedArray<Bf16> source(pairs);
    const GuardedArray<int8_t> integers(fours);
    GuardedArray<float> target(rows * cols);
    kernels().expand(
        {.source = source.data(), .rows = rows, .cols = cols, .target = target.data()});
    for (int64_t i = 0; i < rows * cols; ++i) {
      const int64_t at = (i / cols / 2 * cols + i % cols) * 2 + i / cols % 2;
      ASSERT_EQ(target[i], ToFloat(pairs[at]));
    }
    for (int64_t some = 16; some < cols; some += 16) {
      GuardedArray<float> columns(rows * some);
      kernels().expand({.source = source.data() + 2 * (cols - some),
                        .source_cols = cols,
                        .rows = rows,
                        .cols = some,
                        .target = columns.data()});
      for (int64_t i = 0; i < rows * some; ++i) {
        ASSERT_EQ(columns[i], target[i / some * cols + cols - some + i % some]);
      }
    }
    for (const bool by_column : {true, false}) {
      kernels().expand({.source = integers.data(),
                        .row_scales = by_column ? nullptr : scales.data(),
                        .column_scales = by_column ? scales.data() : nullptr,
                        .int8 = true,
                        .rows = rows,
                        .cols = cols,
                        .target = target.data()});
      for (int64_t i = 0; i < rows * cols; ++i) {
        const int64_t at = (i / cols / 4 * cols + i % cols) * 4 + i / cols % 4;
        const float scale = scales[by_column ? i % cols : i / cols];
        ASSERT_EQ(target[i], static_cast<float>(fours[at]) * scale);
      }
    }
  }
}

}  // namespace
}  // namespace attention
