// Linear maps in every format of weights, against long double: as many rows and columns as a thread
// computes together, and more; a row's bits depend on nothing but the row.
#include "core/kernels/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

constexpr int64_t kInputs = 300;  // two chains, and not a multiple of 64
constexpr int64_t kOutputs = 1100;
constexpr int64_t kMostRows = 200;

/// A map of two parts, of 1100 and 70 output channels, and rows to multiply.
struct SeededMap {
  explicit SeededMap(WeightsDtype dtype, int64_t num_inputs = kInputs, int64_t num_rows = kMostRows)
      : inputs(num_inputs),
        rows_dtype(dtype == WeightsDtype::kBf16 ? ComputeDtype(Dtype::kBf16) : Dtype::kF32),
        weights(SeededTensor(1, dtype == WeightsDtype::kBf16 ? Dtype::kBf16 : Dtype::kF32,
                             {kOutputs + 70, inputs})),
        rows(SeededTensor(2, rows_dtype, {num_rows, inputs})),
        linear(inputs, Parts(), {.weights = dtype, .compute = rows_dtype}) {}

  std::vector<PackedLinear::Part> Parts() const {
    const auto part = [this](int64_t first, int64_t count) {
      return PackedLinear::Part{
          {ElementAt(weights.data(), weights.dtype(), first * inputs), weights.dtype()}, count};
    };
    return {part(0, kOutputs), part(kOutputs, 70)};
  }

  /// Rows [first, first + count) of the result from a part on, padding included.
  std::vector<float> Run(int num_threads, int64_t first, int64_t count, int first_part = 0) const {
    const int64_t columns = linear.num_columns() - linear.ColumnOf(first_part);
    std::vector<float> result(count * columns);
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    const OutputRows output{0, {result.data(), Dtype::kF32, count, columns, columns}};
    linear.Run({.input = {ElementAt(rows.data(), rows_dtype, first * inputs), rows_dtype, count,
                          inputs, inputs},
                .first_part = first_part,
                .end_part = 2,
                .outputs = {&output, 1}},
               workspace);
    return result;
  }

  int64_t inputs;
  Dtype rows_dtype;
  Tensor weights;
  Tensor rows;
  PackedLinear linear;
};

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> floats(tensor.num_elements());
  Convert(tensor.dtype(), tensor.data(), Dtype::kF32, floats.data(), std::ssize(floats));
  return floats;
}

class PackedLinearTest : public ::testing::TestWithParam<WeightsDtype> {};
INSTANTIATE_TEST_SUITE_P(All, PackedLinearTest,
                         ::testing::Values(WeightsDtype::kF32, WeightsDtype::kBf16,
                                           WeightsDtype::kInt8),
                         [](const auto& p) { return std::string(Name(p.param)); });

TEST_P(PackedLinearTest, IsTheProductOfItsChannels) {
  const SeededMap map(GetParam());
  const std::vector<float> x = Floats(map.rows);
  const std::vector<float> w = Floats(map.weights);
  const std::vector<float> result = map.Run(1, 0, kMostRows);
  // Rows and weights of N(0, 1): a sum has a magnitude of sqrt(inputs).
  const double bound = std::sqrt(kInputs) * (GetParam() == WeightsDtype::kInt8 ? 6e-2 : 5e-6);
  for (int64_t row = 0; row < kMostRows; row += 33) {
    for (int64_t channel = 0; channel < kOutputs + 70; ++channel) {
      const int64_t column =
          channel < kOutputs ? channel : map.linear.ColumnOf(1) + channel - kOutputs;
      long double sum = 0;
      for (int64_t k = 0; k < kInputs; ++k) {
        sum += static_cast<long double>(x[row * kInputs + k]) * w[channel * kInputs + k];
      }
      ASSERT_NEAR(result[row * map.linear.num_columns() + column], static_cast<double>(sum), bound)
          << "row " << row << ", channel " << channel;
    }
  }
}

// The last depth makes several chains of whole tiles of a matrix unit, where many rows have shorter
// chains than few.
TEST_P(PackedLinearTest, ARowHasTheSameBitsWhateverIsComputedWithIt) {
  for (const int64_t inputs : {kInputs, int64_t{1120}, int64_t{299}}) {
    if (inputs % 2 != 0 && GetParam() == WeightsDtype::kBf16 &&
        ComputeDtype(Dtype::kBf16) == Dtype::kBf16) {
      continue;  // products of bf16 take pairs of inputs
    }
    const SeededMap map(GetParam(), inputs);
    const std::vector<float> all = map.Run(1, 0, kMostRows);
    EXPECT_EQ(map.Run(2, 0, kMostRows), all);
    for (const int64_t count : {1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65}) {
      const std::vector<float> some = map.Run(1, 70, count);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 70 * map.linear.num_columns()))
          << count << " rows of " << inputs;
    }
  }
}

// Rows are computed in stripes of up to eight tiles of 64 rows: 529 rows are two stripes, and the
// last one of 3,590 rows has a single tile of six rows.
TEST_P(PackedLinearTest, ARowOfManyStripesHasTheBitsOfFewRows) {
  for (const int64_t count : {529, 3590}) {
    const SeededMap map(GetParam(), kInputs, count);
    const int64_t columns = map.linear.num_columns() - map.linear.ColumnOf(1);
    for (const int threads : {1, 3}) {
      const std::vector<float> all = map.Run(threads, 0, count, 1);
      for (int64_t first = 0; first < count; first += kMostRows) {
        const std::vector<float> some = map.Run(1, first, std::min(kMostRows, count - first), 1);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * columns))
            << threads << " threads, from row " << first << " of " << count;
      }
    }
  }
}

// A tile of 64 rows and 64 columns that is whole in one output of f32 is computed there, others in
// a buffer.
TEST_P(PackedLinearTest, TheBitsDoNotDependOnWhereTheResultIsWritten) {
  const SeededMap map(GetParam());
  const int64_t all_columns = map.linear.num_columns();
  const std::vector<float> all = map.Run(1, 0, kMostRows);
  constexpr int64_t kColumns = 1090;  // ends within a block
  constexpr float kUntouched = -12345.0f;
  ThreadPool pool(2);
  Workspace workspace(pool);
  for (const auto& [extra, counts] : {std::pair(0, std::vector<int64_t>{kMostRows}),
                                      std::pair(7, std::vector<int64_t>{kMostRows}),
                                      std::pair(7, std::vector<int64_t>{30, 0, 100, 70}),
                                      std::pair(0, std::vector<int64_t>{64, 64, 72})}) {
    for (const bool has_equal_strides : {true, false}) {
      std::vector<std::vector<float>> results;
      std::vector<OutputRows> outputs;
      int64_t first = 0;
      for (const int64_t count : counts) {
        const int64_t stride = kColumns + extra + (has_equal_strides ? 0 : std::ssize(outputs));
        results.emplace_back(count * stride, kUntouched);
        outputs.push_back({first, {results.back().data(), Dtype::kF32, count, kColumns, stride}});
        first += count;
      }
      map.linear.Run({.input = {map.rows.data(), map.rows_dtype, kMostRows, kInputs, kInputs},
                      .first_part = 0,
                      .end_part = 2,
                      .outputs = outputs},
                     workspace);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const MutableMatrixView& view = outputs[i].view;
        for (int64_t row = 0; row < view.rows; ++row) {
          const float* result = results[i].data() + row * view.row_stride;
          ASSERT_TRUE(std::equal(result, result + kColumns,
                                 all.begin() + (outputs[i].first_row + row) * all_columns))
              << "output " << i << ", row " << row;
          ASSERT_EQ(std::count(result + kColumns, result + view.row_stride, kUntouched),
                    view.row_stride - kColumns);
        }
      }
    }
  }
}

TEST_P(PackedLinearTest, APartHasTheSameBitsAsAmongOthers) {
  const SeededMap map(GetParam());
  const std::vector<float> all = map.Run(1, 0, kMostRows);
  const int64_t columns = map.linear.num_columns() - map.linear.ColumnOf(1);
  for (const int threads : {1, 2, 3}) {
    const std::vector<float> part = map.Run(threads, 0, kMostRows, 1);
    for (int64_t row = 0; row < kMostRows; ++row) {
      ASSERT_TRUE(std::equal(part.begin() + row * columns, part.begin() + (row + 1) * columns,
                             all.begin() + row * map.linear.num_columns() + map.linear.ColumnOf(1)))
          << threads << " threads, row " << row;
    }
  }
}

TEST_P(PackedLinearTest, ReturnsTheChannelsThatItPacked) {
  const SeededMap map(GetParam());
  const std::vector<float> w = Floats(map.weights);
  std::vector<float> channel(kInputs);
  for (const int64_t number : {int64_t{0}, int64_t{63}, int64_t{64}, kOutputs - 1}) {
    map.linear.CopyChannel(number, channel.data());
    const double step = GetParam() == WeightsDtype::kInt8 ? 0.03 : 0;  // of N(0, 1) weights
    for (int64_t k = 0; k < kInputs; ++k) {
      ASSERT_NEAR(channel[k], w[number * kInputs + k], step) << number << ", " << k;
    }
  }
}

/// A matrix stored by rows or by columns, with NaN between the stored rows.
struct StoredMatrix {
  StoredMatrix(const std::vector<float>& matrix, int64_t rows, int64_t columns, bool is_transposed,
               int64_t padding)
      : stride((is_transposed ? rows : columns) + padding),
        numbers((is_transposed ? columns : rows) * stride, std::nanf("")) {
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t row = i / columns;
      const int64_t column = i % columns;
      numbers[is_transposed ? column * stride + row : row * stride + column] = matrix[i];
    }
  }

  int64_t stride;
  std::vector<float> numbers;
};

TEST_P(PackedLinearTest, PacksTheSameChannelsHoweverTheyAreStored) {
  constexpr int64_t kChannels = 70;  // more than a block
  const PackedLinear::Format format{.weights = GetParam()};
  const std::vector<float> w = Floats(SeededTensor(3, Dtype::kF32, {kChannels, kInputs}));
  const PackedLinear::Part plain{{w.data()}, kChannels};
  const PackedLinear expected(kInputs, {&plain, 1}, format);
  for (const bool is_transposed : {false, true}) {
    for (const int64_t padding : {0, 5}) {
      const StoredMatrix stored(w, kChannels, kInputs, is_transposed, padding);
      for (const int64_t stride : {padding == 0 ? 0 : stored.stride, stored.stride}) {
        const PackedLinear::Part part{{stored.numbers.data(), Dtype::kF32, is_transposed, stride},
                                      kChannels};
        const PackedLinear packed(kInputs, {&part, 1}, format);
        for (int64_t number = 0; number < kChannels; ++number) {
          std::vector<float> channel(kInputs);
          std::vector<float> wanted(kInputs);
          packed.CopyChannel(number, channel.data());
          expected.CopyChannel(number, wanted.data());
          ASSERT_EQ(channel, wanted) << "channel " << number << ", transposed " << is_transposed
                                     << ", padding " << padding << ", stride " << stride;
        }
      }
    }
  }
}

// bf16 weights take two bytes also where their products are emulated.
// The largest sum that 8-bit products can have, and one that would not fit into 32 bits.
TEST(PackedLinearOfIntegersTest, SumsOfManyFeaturesFitIntoTheirBits) {
  for (const int64_t inputs : {kMaxInt8Features, kMaxInt8Features + 9}) {
    const std::vector<float> ones(inputs, 1.0f);
    const std::vector<PackedLinear::Part> parts = {{{ones.data(), Dtype::kF32}, 1}};
    const PackedLinear linear(inputs, parts,
                              {.weights = WeightsDtype::kInt8, .compute = Dtype::kF32});
    ThreadPool pool(1);
    Workspace workspace(pool);
    std::vector<float> result(linear.num_columns());
    const OutputRows output{0, {result.data(), Dtype::kF32, 1, 1, linear.num_columns()}};
    linear.Run({.input = {ones.data(), Dtype::kF32, 1, inputs, inputs},
                .first_part = 0,
                .end_part = 1,
                .outputs = {&output, 1}},
               workspace);
    EXPECT_NEAR(result[0] / static_cast<double>(inputs), 1, 0.01) << inputs;
  }
}

TEST(PackedLinearOfIntegersTest, AChannelThatIsNotFiniteHasNoFiniteResult) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> weights(2 * 64, 0.5f);
    weights[3] = bad;
    const std::vector<float> row(64, 1.0f);
    const std::vector<PackedLinear::Part> parts = {{{weights.data(), Dtype::kF32}, 2}};
    const PackedLinear linear(64, parts, {.weights = WeightsDtype::kInt8, .compute = Dtype::kF32});
    ThreadPool pool(1);
    Workspace workspace(pool);
    std::vector<float> result(linear.num_columns());
    const OutputRows output{0, {result.data(), Dtype::kF32, 1, 2, linear.num_columns()}};
    linear.Run({.input = {row.data(), Dtype::kF32, 1, 64, 64},
                .first_part = 0,
                .end_part = 1,
                .outputs = {&output, 1}},
               workspace);
    EXPECT_FALSE(std::isfinite(result[0])) << bad;
    EXPECT_NEAR(result[1], 32, 0.5);
  }
}

TEST(PackedLinearSizeTest, WeightsTakeTheBytesOfTheirType) {
  const SeededMap f32(WeightsDtype::kF32);
  const SeededMap bf16(WeightsDtype::kBf16);
  const SeededMap int8(WeightsDtype::kInt8);
  const auto weights = static_cast<double>(f32.linear.num_columns() * kInputs);
  EXPECT_NEAR(f32.linear.size_bytes() / weights, 4, 0.1);
  if (CurrentAbilities().has_ukernels) {
    EXPECT_NEAR(bf16.linear.size_bytes() / weights, 2, 0.1);
  }
  if (MultipliesInt8()) {
    EXPECT_NEAR(int8.linear.size_bytes() / weights, 1, 0.1);
  }
}

}  // namespace
}  // namespace attention
