// Stacks that continue a prefix: the output of the whole sequence, from the prefix's keys, values
// and hidden states.
#include <algorithm>
#include <cctype>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;

/// A model of a test checkpoint, and a sequence of tokens of it.
class EarlierRowsTest : public ::testing::TestWithParam<std::string> {
 protected:
  explicit EarlierRowsTest(WeightsDtype weights = WeightsDtype::kF32,
                           KeyValueStorage storage = KeyValueStorage::kF32)
      : loaded_(GetParam(), weights), model_(loaded_.model()), storage_(storage) {
    const int64_t length = std::min(kLength, model_.info().max_positions.value_or(kLength));
    for (int64_t i = 0; i < length && model_.info().vocab_size > 0; ++i) {
      ids_.push_back(static_cast<int32_t>((i * i * 7 + 3 * i + 1) % model_.info().vocab_size));
    }
  }

  bool decodes() const {
    return !ids_.empty() && model_.MakeCaches(storage_, nullptr).ok() &&
           model_.CheckGrowth(1, length() - 1).ok();
  }
  int64_t length() const { return std::ssize(ids_); }
  int64_t d_model() const { return model_.info().d_model; }
  std::vector<ModelOutput> Outputs() const {
    std::vector<ModelOutput> outputs = {ModelOutput::kHiddenStates, ModelOutput::kMeanPooled,
                                        ModelOutput::kFirstPooled};
    if (model_.info().has_logits) {
      outputs.insert(outputs.end(), {ModelOutput::kLogits, ModelOutput::kLastLogits});
    }
    return outputs;
  }

  /// Runs the tokens from `first` to `end` and returns what they write. `sequence` has the rest.
  std::vector<float> Run(int64_t first, int64_t end, ModelSequence sequence) const {
    const int64_t count = end - first;
    std::vector<float> rows(count * d_model());
    model_.Embed({.ids = std::span(ids_).subspan(first, count), .first_position = first},
                 rows.data());
    const auto [output_rows, width] =
        model_.OutputOf(sequence.wanted, sequence.earlier.rows + count);
    std::vector<float> output(output_rows * width);
    sequence.seq_len = count;
    sequence.output = {output.data(), Dtype::kF32, output_rows, width, width};
    ThreadPool pool(2);
    Workspace workspace(pool);
    EXPECT_THAT(
        model_.Forward({.hidden_states = {rows.data(), Dtype::kF32, count, d_model(), d_model()},
                        .sequences = {&sequence, 1}},
                       workspace),
        IsOk());
    return output;
  }

  /// Compares with a run of all tokens: without caches, or `with_caches` of the same storage.
  void CompareWithTheWhole(bool with_caches = false) const;

  static constexpr int64_t kLength = 90;
  const LoadedTestModel loaded_;
  const Model& model_;
  const KeyValueStorage storage_;
  std::vector<int32_t> ids_;
};

void EarlierRowsTest::CompareWithTheWhole(bool with_caches) const {
  if (!decodes()) {
    GTEST_SKIP() << "the model has no caches";
  }
  std::vector<float> hidden_states(length() * d_model());
  std::vector<KvCache> whole = *model_.MakeCaches(storage_, nullptr, 512);
  const std::vector<float> written =
      Run(0, length(), {.caches = whole, .hidden_states = hidden_states.data()});
  EXPECT_EQ(hidden_states, written);
  for (const ModelOutput wanted : Outputs()) {
    std::vector<KvCache> fresh;
    if (with_caches) {
      fresh = *model_.MakeCaches(storage_, nullptr);
    }
    const std::vector<float> expected = Run(0, length(), {.wanted = wanted, .caches = fresh});
    for (const int64_t prefix : {int64_t{1}, int64_t{31}, int64_t{64}, length() - 1}) {
      if (prefix >= length()) {
        continue;
      }
      std::vector<KvCache> caches;
      for (KvCache& cache : whole) {
        caches.push_back(cache.Fork());
        ASSERT_THAT(caches.back().Truncate(prefix), IsOk());
      }
      const MatrixView earlier{hidden_states.data(), Dtype::kF32, prefix, d_model(), d_model()};
      EXPECT_EQ(Run(prefix, length(), {.wanted = wanted, .caches = caches, .earlier = earlier}),
                expected)
          << "output " << static_cast<int>(wanted) << " after " << prefix;
    }
  }
}

TEST_P(EarlierRowsTest, EveryOutputIsThatOfTheWholeSequence) { CompareWithTheWhole(); }

std::string NameOf(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EarlierRowsTest, ::testing::ValuesIn(TestCheckpoints()),
                         NameOf);

class EarlierRowsOfIntegersTest : public EarlierRowsTest {
 protected:
  EarlierRowsOfIntegersTest() : EarlierRowsTest(WeightsDtype::kInt8) {}
};
TEST_P(EarlierRowsOfIntegersTest, EveryOutputIsThatOfTheWholeSequence) { CompareWithTheWhole(); }
INSTANTIATE_TEST_SUITE_P(Checkpoints, EarlierRowsOfIntegersTest,
                         ::testing::Values("models/gpt2", "models/llama", "models/gemma2"), NameOf);

// Keys that are rounded: the bits are those of the same cache, not of a run without one.
class EarlierRowsOfBf16Test : public EarlierRowsTest {
 protected:
  EarlierRowsOfBf16Test() : EarlierRowsTest(WeightsDtype::kBf16, KeyValueStorage::kBf16) {}
};
TEST_P(EarlierRowsOfBf16Test, EveryOutputIsThatOfTheSameCacheAtOnce) { CompareWithTheWhole(true); }
INSTANTIATE_TEST_SUITE_P(Checkpoints, EarlierRowsOfBf16Test,
                         ::testing::Values("models/gpt2", "models/llama", "models/gemma2"), NameOf);

class EarlierRowsOfInt8CachesTest : public EarlierRowsTest {
 protected:
  EarlierRowsOfInt8CachesTest() : EarlierRowsTest(WeightsDtype::kF32, KeyValueStorage::kInt8) {}
};
TEST_P(EarlierRowsOfInt8CachesTest, EveryOutputIsThatOfTheSameCacheAtOnce) {
  CompareWithTheWhole(true);
}
INSTANTIATE_TEST_SUITE_P(Checkpoints, EarlierRowsOfInt8CachesTest,
                         ::testing::Values("models/gpt2", "models/llama", "models/gemma2"), NameOf);

TEST(EarlierRowsRefusalTest, AreThoseOfTheCachedTokens) {
  const LoadedTestModel gpt2("models/gpt2");
  const int64_t width = gpt2.info().d_model;
  std::vector<float> rows(2 * width);
  const MatrixView two{rows.data(), Dtype::kF32, 2, width, width};
  std::vector<float> output(3 * width);
  std::vector<KvCache> caches = *gpt2.model().MakeCaches(KeyValueStorage::kF32, nullptr);
  const ModelSequence sequence{.seq_len = 1,
                               .output = {output.data(), Dtype::kF32, 3, width, width},
                               .caches = caches,
                               .earlier = two};
  ThreadPool pool(1);
  Workspace workspace(pool);
  const MatrixView one{rows.data(), Dtype::kF32, 1, width, width};
  EXPECT_THAT(gpt2.model().Forward({.hidden_states = one, .sequences = {&sequence, 1}}, workspace),
              StatusIs(kInvalid, Eq("sequence 0: earlier rows: expected 0, found 2")));
}

}  // namespace
}  // namespace attention
