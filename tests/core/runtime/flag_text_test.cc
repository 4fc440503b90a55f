#include "core/runtime/flag_text.h"

#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::Optional;

TEST(FlagTextTest, LinesAreWrappedBetweenWords) {
  EXPECT_EQ(Wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(Wrapped("one two\nthree", 40), "one two\nthree");
  EXPECT_EQ(Wrapped("a word-that-is-too-long b", 6), "a\nword-that-is-too-long\nb");
  EXPECT_EQ(Wrapped("", 6), "");
}

TEST(FlagTextTest, DurationsAreSecondsUnlessTheyHaveAUnit) {
  EXPECT_THAT(ReadDuration("30"), Optional(absl::Seconds(30)));
  EXPECT_THAT(ReadDuration("0.5"), Optional(absl::Milliseconds(500)));
  EXPECT_THAT(ReadDuration("1m30s"), Optional(absl::Seconds(90)));
  EXPECT_THAT(ReadDuration("inf"), Optional(absl::InfiniteDuration()));
  EXPECT_EQ(ReadDuration("soon"), std::nullopt);
  EXPECT_EQ(ReadDuration(""), std::nullopt);
}

TEST(FlagTextTest, FindsTheFirstFlagWithoutItsValue) {
  EXPECT_THAT(FlagWithoutValue({"run", "--a=1", "--b=", "--c="}), Optional(std::string("--b")));
  EXPECT_EQ(FlagWithoutValue({"--a", "-b=", "x="}), std::nullopt);
  EXPECT_EQ(FlagWithoutValue({"--", "--a="}), std::nullopt);
}

TEST(FlagTextTest, TextsOfTheParserSayWhatWasExpectedAndFound) {
  const auto expected = [](const std::string& flag) { return "a value for " + flag; };
  EXPECT_EQ(PlainParserText("Could not convert: --n = 3.0", expected),
            "--n: expected a value for --n, found \"3.0\"");
  EXPECT_EQ(PlainParserText("--n: 1 required NUMBER missing", expected),
            "--n: expected a value, found none");
  EXPECT_EQ(PlainParserText("--n: At Most 1 required but received 2", expected),
            "--n: expected one value, found 2");
  EXPECT_EQ(PlainParserText("--n requires --m", expected), "--n requires --m");
}

}  // namespace
}  // namespace attention
