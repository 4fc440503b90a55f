// Every value of tokenizers of each kind, changed in every way: the file is refused with an error
// that names the member, or it cuts texts.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/small_tokenizer.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/matchers.h"
#include "tests/support/mutations.h"

namespace attention {
namespace {

using nlohmann::json;

/// BPE with a step of every type.
json ByteLevelTokenizer() {
  json file = SmallTokenizer();
  file["added_tokens"] = json::parse(R"([
    {"id": 8, "content": "<s>", "single_word": true, "lstrip": true, "rstrip": true,
     "normalized": false, "special": true},
    {"id": 9, "content": "A", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": true, "special": false}])");
  file["normalizer"] = json::parse(R"({"type": "Sequence", "normalizers": [
    {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "a"},
    {"type": "Strip", "strip_left": true, "strip_right": true},
    {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "b"}]})");
  file["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "Split", "pattern": {"String": "c"}, "behavior": "MergedWithNext", "invert": false},
    {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]})");
  file["post_processor"] = json::parse(R"({"type": "TemplateProcessing", "pair": [],
    "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"X": {"id": "X", "ids": [8], "tokens": ["<s>"]}}})");
  json& model = file["model"];
  model["continuing_subword_prefix"] = "";
  model["end_of_word_suffix"] = "";
  model["byte_fallback"] = false;
  model["fuse_unk"] = true;
  model["ignore_merges"] = false;
  model["dropout"] = nullptr;
  return file;
}

json WordPieceTokenizer() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "[UNK]", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "cls": ["[UNK]", 0], "sep": ["a", 1]},
    "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}, "unk_token": "[UNK]",
              "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}})");
}

json MetaspaceTokenizer() {
  json file = SmallTokenizer();
  file["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\u2581"},
                           {"prepend_scheme", "first"},
                           {"split", true}};
  file["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"a", 1}}, {"sep", {"b", 2}}};
  return file;
}

json UnigramTokenizer() {
  json file = SmallTokenizer();
  file["normalizer"] = {{"type", "Precompiled"},
                        {"precompiled_charsmap", EncodedMap(SmallTrie(), "\u00e9")}};
  file["model"] = json::parse(R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true,
    "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2], ["<0x78>", -3]]})");
  return file;
}

/// Errors begin with the place in the file; what is missing in one may be noticed in another.
bool NamesAPlace(absl::string_view error) {
  for (const char* member :
       {"added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor"}) {
    if (absl::StartsWith(error, member)) {
      return true;
    }
  }
  return false;
}

TEST(MutatedTokenizerTest, IsRefusedByNameOrCutsTexts) {
  int refused = 0;
  int cut = 0;
  for (const json& file :
       {ByteLevelTokenizer(), WordPieceTokenizer(), MetaspaceTokenizer(), UnigramTokenizer()}) {
    ASSERT_THAT(Tokenizer::Create(file.dump()), IsOk());
    for (const Mutation& mutation : MutationsOf(file)) {
      SCOPED_TRACE(absl::StrCat(mutation.key, " = ", mutation.value));
      const AllocationMeter meter;
      const auto tokenizer = Tokenizer::Create(mutation.text);
      if (tokenizer.ok()) {
        ++cut;
        for (const char* text : {"", "abc Abb1 c<s>!xx", "\u00e9\u4e00 \U0001f642"}) {
          const auto encoded = (*tokenizer)->Encode(text, {.max_tokens = 1000});
          for (const int32_t id : encoded.ok() ? encoded->ids : std::vector<int32_t>()) {
            EXPECT_LT(id, (*tokenizer)->vocab_size());
          }
        }
      } else {
        ++refused;
        EXPECT_TRUE(NamesAPlace(tokenizer.status().message())) << tokenizer.status().ToString();
      }
      EXPECT_LE(meter.peak_bytes(), 4 << 20);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(cut, 200);
}

}  // namespace
}  // namespace attention
