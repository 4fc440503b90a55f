#include "core/tokenizer/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include "tests/core/tokenizer/encode.h"
#include "tests/core/tokenizer/small_tokenizer.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
