// Texts of a million characters, at which quadratic time would not come to an end.
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tokenizer/unicode.h"
#include "tests/core/tokenizer/encode.h"
#include "tests/core/tokenizer/small_tokenizer.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Short runs of marks are ordered by ICU, long ones before.
TEST(NormalizedTest, RunsOfMarksOfAnyLengthHaveTheSameForm) {
  using Form = NormalizationForm;
  for (const int k : {1, 2, 31, 32, 33, 200}) {
    const auto times = [k](const char* mark) { return Repeated(mark, k); };
    const std::string text = "a" + times("\u0301") + times("\u0323") + "b\u0301" + times("\u0334");
    // The classes of U+0334, U+0323 and U+0301 are 1, 220 and 230.
    EXPECT_EQ(Normalized(Form::kNfd, text).value(),
              "a" + times("\u0323") + times("\u0301") + "b" + times("\u0334") + "\u0301")
        << k;
    EXPECT_EQ(
        Normalized(Form::kNfc, text).value(),
        "\u1ea1" + Repeated("\u0323", k - 1) + times("\u0301") + "b" + times("\u0334") + "\u0301")
        << k;
    // U+0F73 is U+0F71 (129) and U+0F72 (130); the halfwidth sound mark is U+3099 (8).
    EXPECT_EQ(Normalized(Form::kNfkd, "a" + times("\u0f73") + times("\uff9e") + "\u05b0").value(),
              "a" + times("\u3099") + "\u05b0" + times("\u0f71") + times("\u0f72"))
        << k;
    // A character that Unicode 9 does not have separates marks.
    EXPECT_EQ(Normalized(Form::kNfd, "a" + times("\u0301") + "\u1df6" + times("\u0323")).value(),
              "a" + times("\u0301") + "\u1df6" + times("\u0323"))
        << k;
  }
}

TEST(LongTextTest, AMillionMarksInTheWrongOrderAreOrdered) {
  const std::string marks = Repeated("\u0301", 1 << 20) + Repeated("\u0323", 1 << 20);
  EXPECT_EQ(Normalized(NormalizationForm::kNfd, marks + "\u0f73").value(),
            "\u0f71\u0f72" + Repeated("\u0323", 1 << 20) + Repeated("\u0301", 1 << 20));
}

TEST(LongTextTest, AWordOfAMillionCharactersIsMerged) {
  EXPECT_THAT(Encode(*Make(SmallTokenizer().dump()), Repeated("abc", 1 << 20)).ids,
              AllOf(SizeIs(1 << 20), Each(5)));
}

TEST(LongTextTest, AMillionSpacesBetweenTokensThatTakeThemAreWalkedOnce) {
  const auto ids = [](const std::string& lstrip) {
    const auto tokenizer = Make(SmallTokenizerWith("/added_tokens", R"([
        {"id": 8, "content": "\n", "single_word": false, "rstrip": true, "normalized": false,
         "special": true, "lstrip": )" + lstrip + "}]"));
    return Encode(*tokenizer, Repeated("\n ", 1 << 20)).ids;
  };
  EXPECT_THAT(ids("false"), AllOf(SizeIs(1 << 20), Each(8)));
  EXPECT_THAT(ids("true"), ElementsAre(8)) << "the first takes the others";
}

TEST(LongTextTest, AMillionSpacesAreSplitAsGpt2SplitsThem) {
  const auto tokenizer = Make(SmallTokenizerWith("/pre_tokenizer", kByteLevel));
  EXPECT_THAT(Encode(*tokenizer, std::string(1 << 20, ' ') + "a").ids, SizeIs((1 << 20) + 1));
}

TEST(LongTextTest, AWordPieceWordOfAMillionCharactersIsSpelled) {
  const auto tokenizer = Make(SmallTokenizerWith("/model", R"({
    "type": "WordPiece", "vocab": {"[UNK]": 0, "aa": 1, "##aaa": 2, "##a": 3},
    "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 1000000000})"));
  EXPECT_THAT(Encode(*tokenizer, std::string(2 + 3 * (1 << 19), 'a')).ids, SizeIs(1 + (1 << 19)));
}

TEST(LongTextTest, AUnigramWordOfAMillionCharactersIsWritten) {
  const auto tokenizer = Make(SmallTokenizerWith("/model", R"({
    "type": "Unigram", "vocab": [["<unk>", 0], ["a", -1], ["aaa", -2]], "unk_id": 0})"));
  EXPECT_THAT(Encode(*tokenizer, std::string(3 * (1 << 20), 'a')).ids,
              AllOf(SizeIs(1 << 20), Each(2)));
  EXPECT_THAT(Encode(*tokenizer, std::string(1 << 20, 'b')).ids, ElementsAre(0));
}

TEST(LongTextTest, AMillionMarksBehindOneCharacterAreOneGrapheme) {
  int64_t graphemes = 0;
  ASSERT_THAT(ForEachGrapheme("a" + Repeated("\u0301", 1 << 20) + "b\r\nc",
                              [&](std::string_view) { ++graphemes; }),
              IsOk());
  EXPECT_EQ(graphemes, 4);
}

TEST(LongTextTest, APatternThatTakesUnreasonablyLongIsRefused) {
  const auto tokenizer = Make(SmallTokenizerWith("/pre_tokenizer", R"({
    "type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": false})"));
  EXPECT_THAT(tokenizer->Encode(std::string(500, 'a') + "b"),
              StatusIs(kInvalid, AllOf(HasSubstr("(a|aa)+$"), HasSubstr("U_REGEX_TIME_OUT"))));
  EXPECT_THAT(tokenizer->Encode(std::string(1 << 20, 'a') + "b"),
              StatusIs(kInvalid, HasSubstr("U_REGEX_STACK_OVERFLOW")));
}

}  // namespace
}  // namespace attention
