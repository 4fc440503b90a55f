#include "client/cli/files/shape_text.h"

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseShapeTest, ReadsExtents) {
  EXPECT_THAT(*ParseShape("2x5x512"), ElementsAre(2, 5, 512));
  EXPECT_THAT(*ParseShape("7"), ElementsAre(7));
  EXPECT_THAT(*ParseShape("0x512"), ElementsAre(0, 512));
}

TEST(ParseShapeTest, QuotesWhatIsWrong) {
  for (const char* text : {"", "x", "2x", "2x-1", "2*5", "2x5.5", "two"}) {
    EXPECT_THAT(ParseShape(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

TEST(ParseShapeTest, RefusesShapesBeyondMemory) {
  EXPECT_THAT(ParseShape("3000000000x3000000000x3000000000"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many elements")));
}

TEST(ParseIntegersTest, ReadsLists) {
  EXPECT_THAT(*ParseIntegers("3,5"), ElementsAre(3, 5));
  EXPECT_THAT(*ParseIntegers("-2"), ElementsAre(-2));
  EXPECT_THAT(*ParseIntegers(""), IsEmpty());
  EXPECT_THAT(ParseIntegers("3,,5"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3,,5")));
}

TEST(ParseTokensTest, PacksSequencesOfDifferentLengths) {
  const absl::StatusOr<RaggedTokens> tokens = ParseTokens("1,2,3;4,5");
  ASSERT_THAT(tokens, IsOk());
  EXPECT_THAT(tokens->ids, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(tokens->lengths, ElementsAre(3, 2));
}

TEST(ParseTokensTest, KeepsEmptySequences) {
  const absl::StatusOr<RaggedTokens> tokens = ParseTokens("1;;2");
  ASSERT_THAT(tokens, IsOk());
  EXPECT_THAT(tokens->lengths, ElementsAre(1, 0, 1));
}

TEST(ParseTokenIdsTest, IsOneSequence) {
  EXPECT_THAT(*ParseTokenIds("3,2147483647"), ElementsAre(3, 2147483647));
  for (const char* text : {"", "1;2", "-1", "4294967297"}) {
    EXPECT_THAT(ParseTokenIds(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("expected token ids of 0 to 2147483647")))
        << text;
  }
}

TEST(ParseTokensTest, RefusesWhatIsNoTokenId) {
  EXPECT_THAT(ParseTokens(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected token ids")));
  EXPECT_THAT(ParseTokens("1,-4"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found \"-4\"")));
  EXPECT_THAT(ParseTokens("2147483648"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found \"2147483648\"")));
  EXPECT_THAT(ParseTokens("a"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found \"a\"")));
}

TEST(ParseTokensTest, ANumberThatIsTooLargeIsToldTheRange) {
  EXPECT_THAT(ParseTokens("99999999999999999999"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected token ids of 0 to 2147483647")));
  EXPECT_THAT(ParseIntegers("1,99999999999999999999"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected integers from -2^63 to 2^63 - 1 separated")));
}

TEST(ParseUtf8Test, NamesTheFirstByteThatIsNone) {
  EXPECT_THAT(ParseUtf8(""), IsOk());
  EXPECT_EQ(*ParseUtf8("caf\u00e9 猫"), "caf\u00e9 猫");
  EXPECT_THAT(ParseUtf8("caf\xe9"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "expected UTF-8, found byte 0xe9 at offset 3"));
  EXPECT_THAT(ParseNamedVersion("\xe9:2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
}

TEST(ParseListsTest, OneListForEachSequence) {
  const auto lists = ParseLists("3,5;;1");
  ASSERT_THAT(lists, IsOk());
  EXPECT_EQ(*lists, (std::vector<std::vector<int64_t>>{{3, 5}, {}, {1}}));
  EXPECT_THAT(ParseLists("1;x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"x\"")));
}

TEST(ParseNumbersTest, TakesFractionsAndSigns) {
  const auto numbers = ParseNumbers("0.5,-2");
  ASSERT_THAT(numbers, IsOk());
  EXPECT_EQ(*numbers, (std::vector<double>{0.5, -2}));
  EXPECT_THAT(ParseNumbers("1,"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"\"")));
}

TEST(ParseIndicesTest, ReadsRanges) {
  EXPECT_THAT(*ParseIndices("0-2,7,5-5"), ElementsAre(0, 1, 2, 7, 5));
  for (const char* const wrong : {"", "a", "3-1", "-1", "1-", "0-65536", "1--2", "1,,2"}) {
    EXPECT_THAT(ParseIndices(wrong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected numbers of 0 to 65535 or ranges")))
        << wrong;
  }
}

}  // namespace
}  // namespace attention
