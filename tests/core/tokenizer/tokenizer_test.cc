#include "core/tokenizer/tokenizer.h"

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/tokenizer/unicode.h"
#include "tests/core/tokenizer/small_tokenizer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::unique_ptr<Tokenizer> Make(const std::string& json) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(json);
  EXPECT_THAT(tokenizer, IsOk());
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TokenizedText Encode(const Tokenizer& tokenizer, const std::string& text) {
  const absl::StatusOr<TokenizedText> result = tokenizer.Encode(text);
  EXPECT_THAT(result, IsOk());
  return result.value_or(TokenizedText());
}

std::string Repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

const char* const kByteLevel =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})";

TEST(TokenizerTest, MergesByRankFromTheLeft) {
  const auto tokenizer = Make(SmallTokenizer().dump());
  EXPECT_THAT(Encode(*tokenizer, "abcab").ids, ElementsAre(5, 4));
  EXPECT_THAT(Encode(*tokenizer, "aabbc").ids, ElementsAre(1, 4, 2, 3));
  EXPECT_THAT(Encode(*tokenizer, "").ids, IsEmpty());
}

TEST(TokenizerTest, AnUnknownCharacterIsTheUnknownToken) {
  EXPECT_THAT(Encode(*Make(SmallTokenizer().dump()), "axyb").ids, ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(Encode(*Make(SmallTokenizerWith("/model/fuse_unk", "true")), "axyb").ids,
              ElementsAre(1, 0, 2));
  EXPECT_THAT(Encode(*Make(SmallTokenizerWith("/model/unk_token", "null")), "axyb").ids,
              ElementsAre(4));
}

TEST(TokenizerTest, AnUnknownTokenThatIsMissingIsRefusedOnceItIsNeeded) {
  const auto tokenizer = Make(SmallTokenizerWith("/model/unk_token", R"("<none>")"));
  EXPECT_THAT(Encode(*tokenizer, "ab").ids, ElementsAre(4));
  EXPECT_THAT(tokenizer->Encode("ax"),
              StatusIs(kInvalid, AllOf(HasSubstr("<none>"), HasSubstr("found \"x\""))));
}

TEST(TokenizerTest, ATokenOutOfReachOfMergesIsFoundWhenTheyAreIgnored) {
  std::string json = SmallTokenizerWith("/model/vocab/cb", "8");
  EXPECT_THAT(Encode(*Make(json), "cb").ids, ElementsAre(3, 2));
  nlohmann::json ignoring = nlohmann::json::parse(json);
  ignoring["model"]["ignore_merges"] = true;
  EXPECT_THAT(Encode(*Make(ignoring.dump()), "cb").ids, ElementsAre(8));
}

TEST(TokenizerTest, MergesMayBeWrittenEitherWay) {
  const auto tokenizer =
      Make(SmallTokenizerWith("/model/merges", R"(["#version: 0.2", "a b", "ab c"])"));
  EXPECT_THAT(Encode(*tokenizer, "abc").ids, ElementsAre(5));
}

TEST(TokenizerTest, AModelWithoutATypeIsKnownByItsMembers) {
  nlohmann::json bpe = SmallTokenizer();
  bpe["model"].erase("type");
  EXPECT_THAT(Encode(*Make(bpe.dump()), "ab").ids, ElementsAre(4));
  const auto word_piece = Make(SmallTokenizerWith("/model", R"({
    "vocab": {"[UNK]": 0, "un": 1, "##able": 2}, "unk_token": "[UNK]",
    "continuing_subword_prefix": "##", "max_input_chars_per_word": 6})"));
  EXPECT_THAT(Encode(*word_piece, "unable").ids, ElementsAre(1, 2));
  EXPECT_THAT(Encode(*word_piece, "unablee").ids, ElementsAre(0));
  EXPECT_THAT(Encode(*word_piece, "able").ids, ElementsAre(0));
}

TEST(TokenizerTest, UnigramTakesTheTokensWithTheLargestSumOfScores) {
  nlohmann::json file = SmallTokenizer();
  nlohmann::json& model = file["model"];
  model = nlohmann::json::parse(R"({
    "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["ab", -3], ["c", -2], ["bc", -2.5], ["d", -9]],
    "unk_id": 0})");
  const auto tokenizer = Make(file.dump());
  EXPECT_THAT(Encode(*tokenizer, "ab").ids, ElementsAre(1, 2));
  EXPECT_THAT(Encode(*tokenizer, "abc").ids, ElementsAre(1, 5));
  EXPECT_THAT(Encode(*tokenizer, "dd").ids, ElementsAre(6, 6));
  EXPECT_THAT(Encode(*tokenizer, "xxaxb\u00e9").ids, ElementsAre(0, 1, 0, 2, 0));
  EXPECT_EQ(tokenizer->vocab_size(), 7);
  // Of equal tokens the last is found; added tokens come behind all entries.
  model["vocab"].push_back({"a", -1});
  file["added_tokens"] = nlohmann::json::parse(R"([
    {"id": 8, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}])");
  EXPECT_THAT(Encode(*Make(file.dump()), "a<s>").ids, ElementsAre(7, 8));
  // The unknown token is an id, which has a text even if an equal token follows.
  model["vocab"].push_back({"<unk>", 0});
  file["added_tokens"] = nlohmann::json::array();
  EXPECT_THAT(Encode(*Make(file.dump()), "x").ids, ElementsAre(0));
  EXPECT_THAT(Encode(*Make(file.dump()), "x").tokens, ElementsAre("<unk>"));
}

TEST(TokenizerTest, UnigramWritesUnknownCharactersAsBytesIfItMay) {
  nlohmann::json file = SmallTokenizer();
  file["model"] = nlohmann::json::parse(R"({"type": "Unigram", "byte_fallback": true, "unk_id": 0,
    "vocab": [["<unk>", 0], ["a", -1], ["<0xC3>", 0], ["<0xA9>", 0]]})");
  const auto tokenizer = Make(file.dump());
  EXPECT_THAT(Encode(*tokenizer, "a\u00e9a").ids, ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(Encode(*tokenizer, "a\u00e9\u00e8a").ids, ElementsAre(1, 0, 1));  // no <0xA8>
  EXPECT_THAT(Encode(*tokenizer, "a\u00e9a").tokens, ElementsAre("a", "\\xC3", "\\xA9", "a"));
}

TEST(TokenizerTest, UnigramWithoutAnUnknownTokenRefusesOnlyWhatItCannotWrite) {
  const auto tokenizer = Make(SmallTokenizerWith("/model", R"({"type": "Unigram",
    "vocab": [["a", -1], ["ab", -2]]})"));
  EXPECT_THAT(Encode(*tokenizer, "aab").ids, ElementsAre(0, 1));
  EXPECT_THAT(tokenizer->Encode("abc"),
              StatusIs(kInvalid,
                       "text: expected characters in the vocabulary, since it has no "
                       "unknown token, found \"c\""));
}

TEST(TokenizerTest, TheVocabularyEndsWithTheLargestIdWhetherAddedOrNot) {
  EXPECT_EQ(Make(SmallTokenizer().dump())->vocab_size(), 8);
  EXPECT_EQ(Make(SmallTokenizerWith("/model/vocab/x", "99"))->vocab_size(), 100);
  const auto with_added = Make(SmallTokenizerWith("/added_tokens", R"([
    {"id": 8, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}])"));
  EXPECT_EQ(with_added->vocab_size(), 9);
  EXPECT_THAT(Encode(*with_added, "a<s>").ids, ElementsAre(1, 8));
}

TEST(TokenizerTest, TokensOfBytesAreShownAsText) {
  const auto tokenizer = Make(SmallTokenizerWith("/pre_tokenizer", kByteLevel));
  nlohmann::json json = SmallTokenizer();
  json["pre_tokenizer"] = nlohmann::json::parse(kByteLevel);
  json["model"]["vocab"] = {{"\u0120", 0},  {"a", 1},      {"\u00c3", 2},      {"\u00a9", 3},
                            {"\u0120a", 4}, {"\u010a", 5}, {"\u00c3\u00a9", 6}};
  json["model"]["merges"] = {"\u0120 a"};
  json["model"]["unk_token"] = nullptr;
  EXPECT_THAT(Encode(*Make(json.dump()), " a\u00e9\n").tokens,
              ElementsAre(" a", "\\xC3", "\\xA9", "\n"));
  json["model"]["merges"].push_back("\u00c3 \u00a9");
  EXPECT_THAT(Encode(*Make(json.dump()), "\u00e9").tokens, ElementsAre("\u00e9"));
  EXPECT_EQ(Make(json.dump())->BytesOf(2), "\xC3");
  EXPECT_EQ(Make(json.dump())->BytesOf(4), " a");
}

TEST(TokenizerTest, AnIdWithoutATokenStandsForNothing) {
  nlohmann::json json = SmallTokenizer();
  json["model"]["vocab"]["late"] = 20;
  const auto tokenizer = Make(json.dump());
  EXPECT_EQ(tokenizer->BytesOf(20), "late");
  for (const int32_t id : {-1, 19, 21}) {
    EXPECT_EQ(tokenizer->BytesOf(id), "") << id;
  }
}

TEST(TokenizerTest, TokensOfSpacesAndFallbackBytesAreShownAsText) {
  nlohmann::json json = SmallTokenizer();
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
  json["model"]["byte_fallback"] = true;
  json["model"]["vocab"]["<0x0A>"] = 8;
  json["model"]["vocab"]["<0xC3>"] = 9;
  json["model"]["vocab"]["<0xA8>"] = 10;
  EXPECT_THAT(Encode(*Make(json.dump()), "a \nè").tokens,
              ElementsAre(" ", "a", " ", "\n", "\\xC3", "\\xA8"));
  json["pre_tokenizer"] = nullptr;
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  EXPECT_THAT(Encode(*Make(json.dump()), "a b").tokens, ElementsAre("a", " ", "b"));
}

TEST(TokenizerTest, TheTemplateGivesSpecialTokensAndTypes) {
  const auto tokenizer = Make(SmallTokenizerWith("/post_processor", R"({
    "type": "TemplateProcessing", "pair": [],
    "single": [{"SpecialToken": {"id": "X", "type_id": 3}}, {"Sequence": {"id": "A", "type_id": 1}},
               {"SpecialToken": {"id": "X", "type_id": 2}}],
    "special_tokens": {"X": {"id": "X", "ids": [5, 6], "tokens": ["abc", "▁"]}}})"));
  const TokenizedText text = Encode(*tokenizer, "ac");
  EXPECT_THAT(text.ids, ElementsAre(5, 6, 1, 3, 5, 6));
  EXPECT_THAT(text.type_ids, ElementsAre(3, 3, 1, 1, 2, 2));
  EXPECT_THAT(text.tokens, ElementsAre("abc", "▁", "a", "c", "abc", "▁"));
  const absl::StatusOr<TokenizedText> plain =
      tokenizer->Encode("ac", {.add_special_tokens = false});
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->ids, ElementsAre(1, 3));
  EXPECT_THAT(plain->type_ids, ElementsAre(1, 1));
}

TEST(TokenizerTest, TextThatIsNotUtf8IsRefusedAtItsFirstBadByte) {
  const auto tokenizer = Make(SmallTokenizer().dump());
  for (const char* bad : {"ab\xff", "ab\xc3", "ab\xc3(", "ab\xc0\x80", "ab\xed\xa0\x80",
                          "ab\xf4\x90\x80\x80", "ab\x80"}) {
    EXPECT_THAT(tokenizer->Encode(bad), StatusIs(kInvalid, HasSubstr("at byte 2"))) << bad;
  }
  EXPECT_THAT(tokenizer->Encode(std::string("a\0\xfe", 3)),
              StatusIs(kInvalid, HasSubstr("at byte 2")));
}

TEST(TokenizerTest, TextOfMoreThan64MebibytesIsRefused) {
  const auto tokenizer = Make(SmallTokenizer().dump());
  EXPECT_THAT(tokenizer->Encode(std::string((64 << 20) + 1, 'a')),
              StatusIs(kInvalid, HasSubstr("at most 67108864 bytes, found 67108865")));
}

TEST(TokenizerTest, ATextOfMoreTokensThanAllowedIsRefusedAndOneOfThatManyIsNot) {
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

TEST(TokenizerTest, ATextThatIsTooLongForItsTokensIsRefusedByItsLengthAlone) {
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

TEST(TokenizerTest, TheCallersPatienceIsAskedForBetweenWordsAndWithinALongOne) {
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

TEST(TokenizerTest, ATextOfTooManyTokensIsNotCutToItsEnd) {
  const auto tokenizer =
      Make(SmallTokenizerWith("/pre_tokenizer", R"({"type": "WhitespaceSplit"})"));
  const std::string text = Repeated("a ", 100 * 128);
  ASSERT_LE(std::ssize(text), tokenizer->MaxTextBytes(100));
  Patience patience{.times = 1 << 20};
  EXPECT_THAT(tokenizer->Encode(text, {.max_tokens = 100, .yield = std::ref(patience)}),
              StatusIs(kInvalid, HasSubstr("at most 100 tokens")));
  EXPECT_EQ(patience.asked, 1) << "at the beginning";
}

TEST(TokenizerTest, ThreadsMayShareOneTokenizer) {
  nlohmann::json json = SmallTokenizer();
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", R"(\s+|\w)"}}},
                           {"behavior", "Removed"},
                           {"invert", true}};
  const auto tokenizer = Make(json.dump());
  const std::vector<int32_t> expected = Encode(*tokenizer, "abc e\u0301 cab").ids;
  std::vector<int> differences(4);
  std::vector<std::thread> threads;
  for (int& count : differences) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto text = tokenizer->Encode("abc e\u0301 cab");
        count += !text.ok() || text->ids != expected;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(differences, Each(0));
}

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

// Sizes at which quadratic time would not come to an end within any test's patience.

TEST(TokenizerSizeTest, AMillionMarksInTheWrongOrderAreOrdered) {
  const std::string marks = Repeated("\u0301", 1 << 20) + Repeated("\u0323", 1 << 20);
  EXPECT_EQ(Normalized(NormalizationForm::kNfd, marks + "\u0f73").value(),
            "\u0f71\u0f72" + Repeated("\u0323", 1 << 20) + Repeated("\u0301", 1 << 20));
}

TEST(TokenizerSizeTest, AWordOfAMillionCharactersIsMerged) {
  EXPECT_THAT(Encode(*Make(SmallTokenizer().dump()), Repeated("abc", 1 << 20)).ids,
              AllOf(SizeIs(1 << 20), Each(5)));
}

TEST(TokenizerSizeTest, AMillionSpacesBetweenTokensThatTakeThemAreWalkedOnce) {
  const auto ids = [](const std::string& lstrip) {
    const auto tokenizer = Make(SmallTokenizerWith("/added_tokens", R"([
        {"id": 8, "content": "\n", "single_word": false, "rstrip": true, "normalized": false,
         "special": true, "lstrip": )" + lstrip + "}]"));
    return Encode(*tokenizer, Repeated("\n ", 1 << 20)).ids;
  };
  EXPECT_THAT(ids("false"), AllOf(SizeIs(1 << 20), Each(8)));
  EXPECT_THAT(ids("true"), ElementsAre(8)) << "the first takes the others";
}

TEST(TokenizerSizeTest, AMillionSpacesAreSplitAsGpt2SplitsThem) {
  const auto tokenizer = Make(SmallTokenizerWith("/pre_tokenizer", kByteLevel));
  EXPECT_THAT(Encode(*tokenizer, std::string(1 << 20, ' ') + "a").ids, SizeIs((1 << 20) + 1));
}

TEST(TokenizerSizeTest, AWordPieceWordOfAMillionCharactersIsSpelled) {
  const auto tokenizer = Make(SmallTokenizerWith("/model", R"({
    "type": "WordPiece", "vocab": {"[UNK]": 0, "aa": 1, "##aaa": 2, "##a": 3},
    "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 1000000000})"));
  EXPECT_THAT(Encode(*tokenizer, std::string(2 + 3 * (1 << 19), 'a')).ids, SizeIs(1 + (1 << 19)));
}

TEST(TokenizerSizeTest, AUnigramWordOfAMillionCharactersIsWritten) {
  const auto tokenizer = Make(SmallTokenizerWith("/model", R"({
    "type": "Unigram", "vocab": [["<unk>", 0], ["a", -1], ["aaa", -2]], "unk_id": 0})"));
  EXPECT_THAT(Encode(*tokenizer, std::string(3 * (1 << 20), 'a')).ids,
              AllOf(SizeIs(1 << 20), Each(2)));
  EXPECT_THAT(Encode(*tokenizer, std::string(1 << 20, 'b')).ids, ElementsAre(0));
}

TEST(TokenizerSizeTest, AMillionMarksBehindOneCharacterAreOneGrapheme) {
  int64_t graphemes = 0;
  ASSERT_THAT(ForEachGrapheme("a" + Repeated("\u0301", 1 << 20) + "b\r\nc",
                              [&](std::string_view) { ++graphemes; }),
              IsOk());
  EXPECT_EQ(graphemes, 4);
}

TEST(TokenizerSizeTest, APatternThatTakesUnreasonablyLongIsRefused) {
  const auto tokenizer = Make(SmallTokenizerWith("/pre_tokenizer", R"({
    "type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": false})"));
  EXPECT_THAT(tokenizer->Encode(std::string(500, 'a') + "b"),
              StatusIs(kInvalid, AllOf(HasSubstr("(a|aa)+$"), HasSubstr("U_REGEX_TIME_OUT"))));
  EXPECT_THAT(tokenizer->Encode(std::string(1 << 20, 'a') + "b"),
              StatusIs(kInvalid, HasSubstr("U_REGEX_STACK_OVERFLOW")));
}

TEST(TokenizerTest, OfAddedTokensThatBecomeTheSameTextTheFirstIsFound) {
  nlohmann::json file = SmallTokenizer();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = nlohmann::json::array();
  for (const char* content : {"Tt", "TT"}) {
    file["added_tokens"].push_back({{"id", 8},
                                    {"content", content},
                                    {"single_word", file["added_tokens"].size() == 1},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", true},
                                    {"special", false}});
  }
  EXPECT_THAT(Make(file.dump())->Encode("atta")->ids, ElementsAre(1, 8, 1));
}

}  // namespace
}  // namespace attention
