#include "core/tensor/seeded.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

std::vector<float> Seeded(uint64_t seed, float stddev, int64_t count) {
  std::vector<float> values(count);
  FillSeeded(seed, stddev, values.data(), count);
  return values;
}

double Stddev(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(SeededTest, ValuesComeFromThePublishedGenerator) {
  // SplitMix64's first numbers from seed 0, cut into 16-bit pieces.
  const int first = 0xe220 + 0xa839 + 0x7b1d + 0xcdaf;
  const int second = 0x6e78 + 0x9e6a + 0xa1b9 + 0x65f4;
  const std::vector<float> values = Seeded(0, 1.0f, 2);
  EXPECT_FLOAT_EQ(values[0], static_cast<float>((first - 131070) / std::sqrt(4294967295.0 / 3)));
  EXPECT_FLOAT_EQ(values[1], static_cast<float>((second - 131070) / std::sqrt(4294967295.0 / 3)));
}

TEST(SeededTest, BitsNeverChange) {
  EXPECT_THAT(Seeded(2024, 0.5f, 4),
              ::testing::ElementsAre(0x1.df54e00000000p-1f, -0x1.2e37400000000p-1f,
                                     -0x1.872c420000000p-3f, -0x1.e2cf260000000p-5f));
  EXPECT_EQ(SeedOf(2024, "layer"), 0x98d35a5bf8baaa20u);
}

TEST(SeededTest, MeanAndDeviationAreWhatWasAskedFor) {
  const std::vector<float> values = Seeded(7, 0.25f, 100'000);
  double sum = 0;
  for (const float value : values) {
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.0, 0.003);
  EXPECT_NEAR(Stddev(values), 0.25, 0.003);
}

TEST(SeededTest, AnElementDependsOnSeedAndIndexAlone) {
  const std::vector<float> all = Seeded(3, 1.0f, 1000);
  const std::vector<float> some = Seeded(3, 1.0f, 17);
  EXPECT_THAT(some, ::testing::ElementsAreArray(all.begin(), all.begin() + 17));
  EXPECT_NE(Seeded(4, 1.0f, 17), some);
}

TEST(SeededTest, TensorIsTheRoundedSequence) {
  const std::vector<float> values = Seeded(5, 1.0f, 12);
  const Tensor tensor = SeededTensor(5, Dtype::kF16, {3, 4});
  EXPECT_EQ(tensor.dtype(), Dtype::kF16);
  EXPECT_EQ(tensor.shape(), (Shape{3, 4}));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(tensor.as<F16>()[i].bits, ToF16(values[i]).bits) << i;
  }
}

TEST(SeededTest, PartsOfAModelHaveSeedsOfTheirOwn) {
  std::set<uint64_t> seeds;
  for (const uint64_t model_seed : {0, 1, 2}) {
    for (const char* part : {"", "a", "b", "ab", "ba", "query", "query_bias"}) {
      seeds.insert(SeedOf(model_seed, part));
    }
  }
  EXPECT_EQ(seeds.size(), 21u);
}

TEST(SeededTest, LayerHasTheDocumentedExtentsAndScales) {
  const SeededLayer layer = MakeSeededLayer(1, Dtype::kF32, {64, 6, 2, 16, 8});
  EXPECT_EQ(layer.query.size(), 6u * 16 * 64);
  EXPECT_EQ(layer.key.size(), 2u * 16 * 64);
  EXPECT_EQ(layer.value.size(), 2u * 8 * 64);
  EXPECT_EQ(layer.output.size(), 64u * 6 * 8);
  EXPECT_EQ(layer.query_bias.size(), 6u * 16);
  EXPECT_EQ(layer.key_bias.size(), 2u * 16);
  EXPECT_EQ(layer.value_bias.size(), 2u * 8);
  EXPECT_EQ(layer.output_bias.size(), 64u);
  EXPECT_NEAR(Stddev(layer.query), 1 / std::sqrt(64.0), 0.005);
  EXPECT_NEAR(Stddev(layer.output), 1 / std::sqrt(48.0), 0.008);
  EXPECT_NEAR(Stddev(layer.query_bias), 0.02, 0.006);
}

TEST(SeededTest, PartsAreRoundedToTheDtype) {
  const SeededLayer exact = MakeSeededLayer(1, Dtype::kF32, {8, 2, 2, 4, 4});
  const SeededLayer layer = MakeSeededLayer(1, Dtype::kBf16, {8, 2, 2, 4, 4});
  for (size_t i = 0; i < layer.query.size(); ++i) {
    EXPECT_EQ(layer.query[i], ToFloat(ToBf16(exact.query[i]))) << i;
  }
  EXPECT_EQ(layer.output_bias[3], ToFloat(ToBf16(exact.output_bias[3])));
}

TEST(SeededTest, EmbeddingsHaveTheirDeviations) {
  EXPECT_NEAR(Stddev(MakeSeededEmbedding(1, Dtype::kF32, "token_embedding", 100, 64)), 1.0, 0.05);
  EXPECT_NEAR(Stddev(MakeSeededEmbedding(1, Dtype::kF32, "position_embedding", 100, 64)), 0.1,
              0.005);
}

}  // namespace
}  // namespace attention
