#include "client/load/length_mix.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LengthMixTest, ReadsEachKind) {
  const auto fixed = ParseLengthMix("fixed:128");
  ASSERT_THAT(fixed, IsOk());
  EXPECT_THAT(fixed->lengths, ElementsAre(128));
  EXPECT_THAT(fixed->weights, ElementsAre(1.0));
  EXPECT_EQ(fixed->text, "fixed:128");
  const auto uniform = ParseLengthMix("uniform:8..10");
  ASSERT_THAT(uniform, IsOk());
  EXPECT_THAT(uniform->lengths, ElementsAre(8, 9, 10));
  EXPECT_THAT(uniform->weights, ElementsAre(1.0, 1.0, 1.0));
  const auto zipf = ParseLengthMix("zipf:2:5..7");
  ASSERT_THAT(zipf, IsOk());
  EXPECT_THAT(zipf->lengths, ElementsAre(5, 6, 7));
  EXPECT_THAT(zipf->weights, ElementsAre(1.0, 0.25, DoubleNear(1.0 / 9.0, 1e-15)));
}

TEST(LengthMixTest, LinesOfAFileAreAsLikelyAsEachOther) {
  const TempFolder folder;
  const std::string path = folder.path() + "/lengths.txt";
  std::ofstream(path) << "300\n17\r\n\n 300 \n4\n";
  const auto mix = ParseLengthMix("file:" + path);
  ASSERT_THAT(mix, IsOk());
  EXPECT_THAT(mix->lengths, ElementsAre(4, 17, 300));
  EXPECT_THAT(mix->weights, ElementsAre(1.0, 1.0, 2.0));
}

TEST(LengthMixTest, SaysWhatIsWrong) {
  for (const char* text :
       {"", "8..512", "normal:5", "uniform:8", "uniform:8..9..10", "uniform:0..5", "uniform:a..5",
        "fixed:", "fixed:0", "fixed:1000000000", "zipf:8..512", "zipf:x:8..512", "zipf:nan:8..512",
        "zipf:-1:8..9", "zipf:21:8..9"}) {
    EXPECT_THAT(ParseLengthMix(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr(absl::StrCat("\"", text, "\"")),
                                                     HasSubstr("uniform:MIN..MAX"))));
  }
  EXPECT_THAT(ParseLengthMix("uniform:9..8"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 9 to 8")));
  EXPECT_THAT(ParseLengthMix("uniform:1..100001"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 100000 lengths")));
}

TEST(LengthMixTest, NamesTheFileAndTheLine) {
  EXPECT_THAT(ParseLengthMix("file:/absent.txt"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/absent.txt")));
  const TempFolder folder;
  const std::string path = folder.path() + "/lengths.txt";
  std::ofstream(path) << "300\nlong\n";
  EXPECT_THAT(ParseLengthMix("file:" + path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat(
                           path, ", line 2: expected a length of 1 to 100000000, found \"long\"")));
  std::ofstream(path) << "\n";
  EXPECT_THAT(ParseLengthMix("file:" + path),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 0")));
}

TEST(WeightedDrawTest, FollowsTheWeightsAndTheSeed) {
  const std::vector<double> weights = {1.0, 0.5, 2.5};
  WeightedDraw draw(weights, 7), same(weights, 7), other(weights, 8);
  constexpr int kDraws = 40000;
  std::vector<int> counts(weights.size());
  int equal_to_other = 0;
  for (int i = 0; i < kDraws; ++i) {
    const size_t index = draw.Next();
    ASSERT_LT(index, weights.size());
    EXPECT_EQ(index, same.Next());
    equal_to_other += index == other.Next() ? 1 : 0;
    ++counts[index];
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(counts[i], kDraws * weights[i] / 4.0, 0.03 * kDraws) << i;
  }
  EXPECT_LT(equal_to_other, kDraws * 3 / 4);
}

}  // namespace
}  // namespace attention
