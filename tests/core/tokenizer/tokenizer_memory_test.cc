// The memory that a text or a tokenizer.json takes is a small multiple of its own bytes.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/small_tokenizer.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kMebibyte = 1 << 20;

std::unique_ptr<Tokenizer> Make(const json& file) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(file.dump());
  EXPECT_THAT(tokenizer, IsOk());
  return *std::move(tokenizer);
}

/// Merges of equal neighbours, up to 1,024 letters.
json DoublingTokenizer() {
  json file = SmallTokenizer();
  json& model = file["model"];
  model["vocab"] = {{"<unk>", 0}, {"a", 1}};
  model["merges"] = json::array();
  for (std::string token = "a"; token.size() < 1024; token += token) {
    model["merges"].push_back({token, token});
    model["vocab"][token + token] = model["vocab"].size();
  }
  return file;
}

TEST(TokenizerMemoryTest, OneWordOfOneLetterTakesASmallMultipleOfItsBytes) {
  const auto tokenizer = Make(DoublingTokenizer());
  const std::string text(kMebibyte, 'a');
  const AllocationMeter meter;
  const absl::StatusOr<TokenizedText> encoded = tokenizer->Encode(text);
  ASSERT_THAT(encoded, IsOk());
  EXPECT_EQ(encoded->ids.size(), text.size() / 1024);
  EXPECT_LE(meter.peak_bytes(), 25 * std::ssize(text));
}

TEST(TokenizerMemoryTest, OneUnigramWordTakesASmallMultipleOfItsBytes) {
  const auto tokenizer = Make(json::parse(SmallTokenizerWith("/model", R"({
    "type": "Unigram", "vocab": [["<unk>", 0], ["aaaaaaaa", -1]], "unk_id": 0})")));
  const std::string text(kMebibyte, 'a');
  const AllocationMeter meter;
  EXPECT_THAT(tokenizer->Encode(text), IsOk());
  EXPECT_LE(meter.peak_bytes(), 25 * std::ssize(text));
}

TEST(TokenizerMemoryTest, WordsAreNotKept) {
  json file = DoublingTokenizer();
  file["model"]["vocab"]["\u0120aa"] = 99;
  file["model"]["unk_token"] = nullptr;  // words of spaces become no token
  for (const char* step :
       {R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})",
        R"({"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false})",
        R"({"type": "BertPreTokenizer"})", R"({"type": "Punctuation"})"}) {
    file["pre_tokenizer"] = json::parse(step);
    const auto tokenizer = Make(file);
    std::string text;
    while (text.size() < static_cast<size_t>(kMebibyte)) {
      text += "  . !";
    }
    const AllocationMeter meter;
    EXPECT_THAT(tokenizer->Encode(text), IsOk());
    EXPECT_LE(meter.peak_bytes(), 10 * std::ssize(text)) << step;
  }
}

TEST(TokenizerMemoryTest, AnIdCostsNothingForBeingLarge) {
  const std::string file = SmallTokenizerWith("/model/vocab/x", "16777215");
  const AllocationMeter meter;
  const auto tokenizer = Tokenizer::Create(file);
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_LE(meter.peak_bytes(), kMebibyte);
  EXPECT_EQ((*tokenizer)->vocab_size(), 16777216);
  EXPECT_EQ((*tokenizer)->BytesOf(16777215), "x");
  EXPECT_EQ((*tokenizer)->BytesOf(16777214), "");
}

TEST(TokenizerMemoryTest, AFileIsReadUpToABound) {
  const TempFolder folder;
  const std::string path = folder.Write("tokenizer.json", "{");
  std::filesystem::resize_file(path, 1024 * kMebibyte);  // of zeros that are nowhere
  const AllocationMeter meter;
  EXPECT_THAT(Tokenizer::Load(path),
              StatusIs(kInvalid, HasSubstr("tokenizer.json: expected at most 67108864 bytes")));
  EXPECT_LE(meter.peak_bytes(), 256 * kMebibyte);
}

TEST(TokenizerMemoryTest, AVocabularyTakesASmallMultipleOfItsFile) {
  json words = json::parse(SmallTokenizerWith("/model", R"({
    "type": "WordPiece", "vocab": {}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100})"));
  json pairs = SmallTokenizer();
  json scored = SmallTokenizer();
  scored["model"] = {{"type", "Unigram"}, {"vocab", json::array()}};
  for (int i = 0; i < 30000; ++i) {
    words["model"]["vocab"][absl::StrCat("##", i * 7919)] = i;
    pairs["model"]["vocab"][absl::StrCat("a", i)] = i + 100;
    scored["model"]["vocab"].push_back({absl::StrCat("##", i * 7919), -i});
  }
  for (const json& file : {words, pairs, scored}) {
    const std::string text = file.dump();
    const AllocationMeter meter;
    EXPECT_THAT(Tokenizer::Create(text), IsOk());
    EXPECT_LE(meter.peak_bytes(), 50 * std::ssize(text));
  }
}

// ICU keeps a table of characters for each set, and \b alone becomes four of them.
TEST(TokenizerMemoryTest, ALongRegularExpressionIsRefusedBeforeItIsMade) {
  json file = SmallTokenizer();
  for (const std::string part : {"\\b", "\\p{L}", "a"}) {
    std::string regex;
    while (std::ssize(regex) <= kMebibyte) {
      regex += part;
    }
    file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", regex}}}, {"content", ""}};
    const std::string text = file.dump();
    const AllocationMeter meter;
    EXPECT_THAT(Tokenizer::Create(text),
                StatusIs(kInvalid, HasSubstr("a regular expression of at most 4096 bytes, once")));
    EXPECT_LE(meter.peak_bytes(), 10 * std::ssize(text)) << part;
  }
}

TEST(TokenizerMemoryTest, ANormalizerCannotMakeATextHuge) {
  json file = SmallTokenizer();
  file["normalizer"] = {{"type", "Replace"},
                        {"pattern", {{"String", "a"}}},
                        {"content", std::string(kMebibyte, 'b')}};
  const auto tokenizer = Make(file);
  const std::string text(1000, 'a');
  const AllocationMeter meter;
  EXPECT_THAT(tokenizer->Encode(text),
              StatusIs(kInvalid, HasSubstr("normalizer: expected at most 17024 bytes")));
  EXPECT_LE(meter.peak_bytes(), 8 * kMebibyte);
}

TEST(TokenizerMemoryTest, ATemplateCannotMakeATextHuge) {
  json file = SmallTokenizer();
  const json part = {{"SpecialToken", {{"id", "X"}, {"type_id", 0}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"pair", json::array()},
                            {"single", std::vector<json>(17, part)},
                            {"special_tokens", {{"X", {{"ids", {1}}}}}}};
  EXPECT_THAT(Tokenizer::Create(file.dump()),
              StatusIs(kInvalid, HasSubstr("single: expected at most 16 parts")));
  file["post_processor"]["single"] = json::array({part});  // clang would copy {part}
  file["post_processor"]["special_tokens"]["X"]["ids"] = std::vector<int>(17, 1);
  EXPECT_THAT(Tokenizer::Create(file.dump()),
              StatusIs(kInvalid, HasSubstr("ids: expected at most 16 ids")));
}

TEST(TokenizerMemoryTest, AListOfStepsHasABound) {
  json file = SmallTokenizer();
  const json step = {{"type", "Lowercase"}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(17, step)}};
  EXPECT_THAT(Tokenizer::Create(file.dump()),
              StatusIs(kInvalid, HasSubstr("normalizer.normalizers[16].type: expected at most 16 "
                                           "steps")));
}

}  // namespace
}  // namespace attention
