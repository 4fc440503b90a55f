// What a caller may limit: the bytes of a text, its tokens and the time that cutting it takes.
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>

#include "tests/core/tokenizer/encode.h"
#include "tests/core/tokenizer/small_tokenizer.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

TEST(TokenizerLimitTest, TextOfMoreThan64MebibytesIsRefused) {
  const auto tokenizer = Make(SmallTokenizer().dump());
  EXPECT_THAT(tokenizer->Encode(std::string((64 << 20) + 1, 'a')),
              StatusIs(kInvalid, HasSubstr("at most 67108864 bytes, found 67108865")));
}

TEST(TokenizerLimitTest, ATextOfMoreTokensThanAllowedIsRefusedAndOneOfThatManyIsNot) {
  const auto tokenizer = Make(SmallTokenizerWith("/post_processor", R"({
    "type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]})"));
  EXPECT_THAT(tokenizer->Encode("cccc", {.max_tokens = 6}), IsOk());
  EXPECT_THAT(tokenizer->Encode("cccc", {.max_tokens = 5}),
              StatusIs(kInvalid, HasSubstr("text: expected at most 5 tokens, found more")));
  EXPECT_THAT(tokenizer->Encode("cccc", {.add_special_tokens = false, .max_tokens = 4}), IsOk());
  EXPECT_THAT(tokenizer->Encode("cccc", {.add_special_tokens = false, .max_tokens = 3}),
              StatusIs(kInvalid, HasSubstr("at most 3 tokens")));
  EXPECT_THAT(tokenizer->Encode("", {.add_special_tokens = false, .max_tokens = 0}), IsOk());
}

TEST(TokenizerLimitTest, ATextThatIsTooLongForItsTokensIsRefusedByItsLengthAlone) {
  const auto tokenizer = Make(SmallTokenizer().dump());
  EXPECT_EQ(tokenizer->MaxTextBytes(0), 0);
  EXPECT_EQ(tokenizer->MaxTextBytes(96), 96 * 256);
  EXPECT_EQ(tokenizer->MaxTextBytes(int64_t{1} << 62), int64_t{64} << 20);
  EXPECT_EQ(
      Make(SmallTokenizerWith("/model/vocab/" + std::string(100, 'x'), "99"))->MaxTextBytes(96),
      96 * 400);
  EXPECT_EQ(Make(SmallTokenizerWith("/added_tokens", R"([
    {"id": 8, "content": ")" + std::string(200, 'x') + R"(", "single_word": false, "lstrip": false,
     "rstrip": false, "normalized": false, "special": true}])"))
                ->MaxTextBytes(96),
            96 * 800);
  int asked = 0;
  const EncodeOptions options{.max_tokens = 96, .yield = [&] { return ++asked > 0; }};
  EXPECT_THAT(tokenizer->Encode(std::string(96 * 256 + 1, '\xff'), options),
              StatusIs(kInvalid, HasSubstr("text: expected at most 24576 bytes, found 24577")));
  EXPECT_EQ(asked, 0);
}

// Answers true `times` times.
struct Patience {
  bool operator()() { return ++asked <= times; }
  int times = 0;
  int asked = 0;
};

TEST(TokenizerLimitTest, TheCallersPatienceIsAskedForBetweenWordsAndWithinALongOne) {
  const auto whole = Make(SmallTokenizer().dump());
  const auto words = Make(SmallTokenizerWith("/pre_tokenizer", R"({"type": "WhitespaceSplit"})"));
  struct Case {
    const Tokenizer* tokenizer;
    std::string text;
  };
  for (const auto& [tokenizer, text] :
       {Case{whole.get(), Repeated("ab", 1 << 18)}, Case{words.get(), Repeated("ab ", 1 << 18)}}) {
    for (const int times : {0, 1, 2}) {
      Patience patience{.times = times};
      EXPECT_THAT(tokenizer->Encode(text, {.yield = std::ref(patience)}),
                  StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
      EXPECT_EQ(patience.asked, times + 1);
    }
    EXPECT_THAT(tokenizer->Encode(text, {.yield = Patience{.times = 1 << 20}}), IsOk());
  }
}

TEST(TokenizerLimitTest, ATextOfTooManyTokensIsNotCutToItsEnd) {
  const auto tokenizer =
      Make(SmallTokenizerWith("/pre_tokenizer", R"({"type": "WhitespaceSplit"})"));
  const std::string text = Repeated("a ", 100 * 128);
  ASSERT_LE(std::ssize(text), tokenizer->MaxTextBytes(100));
  Patience patience{.times = 1 << 20};
  EXPECT_THAT(tokenizer->Encode(text, {.max_tokens = 100, .yield = std::ref(patience)}),
              StatusIs(kInvalid, HasSubstr("at most 100 tokens")));
  EXPECT_EQ(patience.asked, 1) << "at the beginning";
}

}  // namespace
}  // namespace attention
