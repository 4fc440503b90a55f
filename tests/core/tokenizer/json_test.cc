// What a tokenizer.json may not say, and how it is told so.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/small_tokenizer.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

struct BadValue {
  std::string where;    // JSON pointer into SmallTokenizer
  std::string value;    // JSON
  std::string message;  // the whole refusal
};

void ExpectRefusals(std::initializer_list<BadValue> bad_values) {
  for (const BadValue& bad : bad_values) {
    EXPECT_THAT(Tokenizer::Create(SmallTokenizerWith(bad.where, bad.value)),
                StatusIs(kInvalid, bad.message))
        << bad.where << " " << bad.value;
  }
}

TEST(TokenizerJsonTest, TextThatIsNoJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "7", "{\"model\":", "{\"\xff\":1}", "{} x"}) {
    EXPECT_THAT(Tokenizer::Create(text), StatusIs(kInvalid, HasSubstr("tokenizer: expected ")))
        << text;
  }
}

TEST(TokenizerJsonTest, AModelThatIsWrongIsRefused) {
  ExpectRefusals({
      {"/model", "null", "model: expected an object, found null"},
      {"/model", "[]", "model: expected an object, found a list of 0"},
      {"/model", "{}", "model.type: expected BPE, WordPiece or Unigram, found none"},
      {"/model/type", "\"WordLevel\"",
       "model.type: expected BPE, WordPiece or Unigram, found \"WordLevel\""},
      {"/model/type", "\"Unigram\"",
       "model.vocab: expected a list of at most 16777216 tokens and scores, found an object"},
      {"/model/type", "1", "model.type: expected a string, found 1"},
      {"/model/vocab", "[]",
       "model.vocab: expected an object of tokens and ids, found a list of 0"},
      {"/model/vocab/q", "-1", "model.vocab[\"q\"]: expected an id below 16777216, found -1"},
      {"/model/vocab/q", "16777216",
       "model.vocab[\"q\"]: expected an id below 16777216, found 16777216"},
      {"/model/vocab/q", "99999999999999999999",
       "model.vocab[\"q\"]: expected an id below 16777216, found 1e+20"},
      {"/model/vocab/q", "1.0", "model.vocab[\"q\"]: expected an id below 16777216, found 1.0"},
      {"/model/vocab/q", "\"7\"", "model.vocab[\"q\"]: expected an id below 16777216, found \"7\""},
      {"/model/dropout", "0.1",
       "model.dropout: expected null or 0, so that answers do not depend on chance, found 0.1"},
      {"/model/byte_fallback", "1", "model.byte_fallback: expected true or false, found 1"},
      {"/model/unk_token", "[7]", "model.unk_token: expected a string, found a list of 1"},
  });
}

TEST(TokenizerJsonTest, AUnigramModelThatIsWrongIsRefused) {
  const auto unigram = [](const std::string& members) {
    return R"({"type": "Unigram", "vocab": [["<unk>", 0], ["a", -1.5]])" + members + "}";
  };
  ASSERT_THAT(Tokenizer::Create(SmallTokenizerWith("/model", unigram(""))), IsOk());
  const std::string long_token(1025, 'a');
  ExpectRefusals({
      {"/model", unigram(R"(, "unk_id": 2)"),
       "model.unk_id: expected an id of the 2 tokens, found 2"},
      {"/model", unigram(R"(, "unk_id": -1)"),
       "model.unk_id: expected an id below 16777216, found -1"},
      {"/model", unigram(R"(, "byte_fallback": 0)"),
       "model.byte_fallback: expected true or false, found 0"},
      {"/model", R"({"type": "Unigram", "vocab": [["a", 0], ["b"]]})",
       "model.vocab[1]: expected a token and its score, found a list of 1"},
      {"/model", R"({"type": "Unigram", "vocab": [["a", "0"]]})",
       "model.vocab[0]: expected a token and its score, found a list of 2"},
      {"/model", R"({"type": "Unigram", "vocab": [{"a": 0}]})",
       "model.vocab[0]: expected a token and its score, found an object"},
      {"/model", R"({"type": "Unigram", "vocab": [[")" + long_token + R"(", 0]]})",
       "model.vocab: expected tokens of at most 1024 bytes, found one of 1025"},
  });
}

TEST(TokenizerJsonTest, AMapOfCharactersThatIsWrongIsRefused) {
  const std::vector<uint32_t> trie = SmallTrie();
  const auto step = [](const std::string& map) {
    return R"({"type": "Precompiled", "precompiled_charsmap": ")" + map + "\"}";
  };
  const std::string texts("\u00e9\0x", 4);
  ASSERT_THAT(Tokenizer::Create(SmallTokenizerWith("/normalizer", step(EncodedMap(trie, texts)))),
              IsOk());
  std::vector<uint32_t> loop = trie;
  loop['b' ^ 256] = 'b' | 'b' << 10;  // its children are those of the root
  ASSERT_THAT(Tokenizer::Create(SmallTokenizerWith("/normalizer", step(EncodedMap(loop, texts)))),
              IsOk());
  std::vector<uint32_t> far = trie;
  far[256 ^ 'a'] = 'a' | 1 << 9 | 9 << 10;
  const std::string where = "normalizer.precompiled_charsmap: expected ";
  const std::string far_at = absl::StrCat((256 ^ 'a' ^ (9 << 8)) ^ 1);
  std::vector<uint32_t> within = trie, outside = trie;
  within[512] = uint32_t{1} << 31 | 1;
  outside[512] = uint32_t{1} << 31 | 5;
  ExpectRefusals({
      {"/normalizer", R"({"type": "Precompiled"})", where + "a string, found none"},
      {"/normalizer", step("?"), where + "at most 4194304 bytes of base64, found \"?\""},
      {"/normalizer", step("AA=="),
       where + "the size of a trie, and the trie, found 1 bytes, a size of 0"},
      {"/normalizer", step("CAAAAAAAAAA="),
       where + "the size of a trie, and the trie, found 8 bytes, a size of 8"},
      {"/normalizer", step("BAAAAAAAAAA="), where + "a trie within its 1 units, found unit 1"},
      {"/normalizer", step(EncodedMap(far, texts)),
       where + "a trie within its 768 units, found unit " + far_at},
      {"/normalizer", step(EncodedMap(trie, "\xff")),
       where + "replacements in UTF-8, found others"},
      {"/normalizer", step(EncodedMap(within, texts)),
       where + "places of replacements, found another place"},
      {"/normalizer", step(EncodedMap(outside, texts)),
       where + "places of replacements, found another place"},
  });
}

TEST(TokenizerJsonTest, MergesThatAreWrongAreRefused) {
  ExpectRefusals({
      {"/model/merges", "null", "model.merges: expected a list, found null"},
      {"/model/merges", "{}", "model.merges: expected a list, found an object"},
      {"/model/merges/1", "[\"a\", \"x\"]",
       "model.merges[1]: expected tokens of the vocabulary, which lacks \"x\", found a list of 2"},
      {"/model/merges/0", "\"c a\"",
       "model.merges[0]: expected tokens of the vocabulary, which lacks \"ca\", found \"c a\""},
      {"/model/merges/0", "\"a\"",
       "model.merges[0]: expected two tokens, \"a b\" or [\"a\", \"b\"], found \"a\""},
      {"/model/merges/0", "\"a b c\"",
       "model.merges[0]: expected two tokens, \"a b\" or [\"a\", \"b\"], found \"a b c\""},
      {"/model/merges/0", "[\"a\", \"b\", \"c\"]",
       "model.merges[0]: expected two tokens, \"a b\" or [\"a\", \"b\"], found a list of 3"},
      {"/model/merges/0", "[\"a\", 1]",
       "model.merges[0]: expected two tokens, \"a b\" or [\"a\", \"b\"], found a list of 2"},
      {"/model/continuing_subword_prefix", "\"####\"",
       "model.merges[0]: expected a second token with the prefix of 4 bytes, found a list of 2"},
  });
}

TEST(TokenizerJsonTest, StepsThatAreWrongAreRefused) {
  ExpectRefusals({
      {"/normalizer", "7", "normalizer: expected an object, found 7"},
      {"/normalizer", R"({"type": "Nmt"})",
       "normalizer.type: expected one of Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
       "BertNormalizer, Replace, Prepend, Strip, Precompiled, found \"Nmt\""},
      {"/normalizer",
       R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]})",
       "normalizer.normalizers[1].strip_left: expected true or false, found none"},
      {"/normalizer", R"({"type": "Replace", "pattern": "a", "content": "b"})",
       "normalizer.pattern: expected an object, found \"a\""},
      {"/pre_tokenizer", R"({"type": "UnicodeScripts"})",
       "pre_tokenizer.type: expected one of Sequence, ByteLevel, BertPreTokenizer, Whitespace, "
       "WhitespaceSplit, Split, Metaspace, Digits, Punctuation, found \"UnicodeScripts\""},
      {"/pre_tokenizer", R"({"type": "Sequence"})",
       "pre_tokenizer.pretokenizers: expected a list, found none"},
      {"/pre_tokenizer", R"({"type": "Punctuation", "behavior": "Merged"})",
       "pre_tokenizer.behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
       "Contiguous, found \"Merged\""},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})",
       "pre_tokenizer.replacement: expected one character, found \"__\""},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       "pre_tokenizer.prepend_scheme: expected always, first or never, found \"last\""},
      {"/pre_tokenizer",
       R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false,
           "prepend_scheme": "first"})",
       "pre_tokenizer.prepend_scheme: expected never beside \"add_prefix_space\": false, found "
       "\"first\""},
  });
}

TEST(TokenizerJsonTest, PatternsThatAreNotKnownAreRefused) {
  const auto refusal = [](const std::string& regex) {
    const nlohmann::json step = {
        {"type", "Replace"}, {"pattern", {{"Regex", regex}}}, {"content", ""}};
    return std::string(
        Tokenizer::Create(SmallTokenizerWith("/normalizer", step.dump())).status().message());
  };
  const std::string expected = "normalizer.pattern.Regex: expected a regular expression ";
  EXPECT_EQ(refusal("(a"), expected + "that ICU takes (U_REGEX_MISMATCHED_PAREN), found \"(a\"");
  EXPECT_EQ(refusal("\\X"), expected + "without \\X, found \"\\\\X\"");
  EXPECT_EQ(refusal("[[:punct:]]"), expected + "without [:class:], found \"[[:punct:]]\"");
  EXPECT_EQ(refusal("\\p{N}{1,3}+"), expected + "without {n,m}+, found \"\\\\p{N}{1,3}+\"");
  EXPECT_EQ(refusal("a(b{2}?)"), expected + "without {n}?, found \"a(b{2}?)\"");
  EXPECT_EQ(refusal("\\p{L}+[^\\w^]*(?i:x)\\b"), "");
  EXPECT_EQ(refusal("a{2,3}?\\p{L}?[{2}]?"), "");
}

// ICU counts saved states, of which (a*)\1\1\1b needs few for all the bytes that it compares. Where
// a comment or a quoted text makes a bracket a plain character, the reference is none of a set.
TEST(TokenizerJsonTest, BackReferencesAreRefusedWhateverHidesThem) {
  const auto refusal = [](const std::string& regex) {
    return std::string(Pattern::FromRegex(regex).status().message());
  };
  const std::string expected = "a regular expression without back references";
  for (const char* regex :
       {"(a*)\\1\\1\\1b", "(a*)\\9", "(?<n>a*)\\k<n>b", "(?#[)(a*)\\1b", "(?#\\a{)(a*)\\1b}",
        "(?x)((a*)#(?#\n\\1b)", "[\\1]", "\\\\(a*)\\1", "\\p{L}(a*)\\1"}) {
    EXPECT_EQ(refusal(regex), expected) << regex;
  }
  EXPECT_EQ(refusal("\\Q[\\E(a*)\\1b"), "a regular expression without \\Q");
  EXPECT_EQ(refusal("(a*)\\g<1>"), "a regular expression without \\g");
  for (const char* regex : {"\\\\1", "\\p{L}{1,3}", "\\01", "\\x{31}", "(a)(?:b)1"}) {
    EXPECT_EQ(refusal(regex), "") << regex;
  }
}

TEST(TokenizerJsonTest, PostProcessorsThatAreWrongAreRefused) {
  ExpectRefusals({
      {"/post_processor", R"({"type": "BertProcessing", "cls": ["a", 1], "sep": ["b"]})",
       "post_processor.sep: expected a token and its id, found a list of 1"},
      {"/post_processor", R"({"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 8]})",
       "post_processor: expected ids of the vocabulary or of added tokens, found 8"},
      {"/post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
           "special_tokens": {}})",
       "post_processor.special_tokens.X: expected an object, found none"},
      {"/post_processor",
       R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}]})",
       "post_processor.single[0].Sequence.id: expected \"A\", since only one text is supported, "
       "found \"B\""},
      {"/post_processor",
       R"({"type": "Sequence", "processors": [{"type": "TemplateProcessing", "single": []},
           {"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]}]})",
       "post_processor.processors[1].type: expected one step that adds special tokens, at most, "
       "found \"BertProcessing\""},
  });
}

TEST(TokenizerJsonTest, AddedTokensThatAreWrongAreRefused) {
  const std::string rest = R"("single_word": false, "lstrip": false, "rstrip": false, )"
                           R"("normalized": false, "special": true})";
  const auto refusal = [&](const std::string& token) {
    return std::string(Tokenizer::Create(SmallTokenizerWith("/added_tokens", "[" + token + "]"))
                           .status()
                           .message());
  };
  EXPECT_EQ(refusal("7"), "added_tokens[0]: expected an object, found 7");
  EXPECT_EQ(refusal(R"({"id": 8, "content": "x"})"),
            "added_tokens[0].single_word: expected true or false, found none");
  EXPECT_EQ(refusal(R"({"id": -8, "content": "x", )" + rest),
            "added_tokens[0].id: expected an id below 16777216, found -8");
  EXPECT_EQ(
      refusal(R"({"id": 8, "content": ")" + std::string(1025, 'x') + "\", " + rest),
      "added_tokens: expected tokens of at most 1024 bytes, found one of 1025, with the id 8");
  EXPECT_EQ(refusal(R"({"id": 8, "content": "", )" + rest), "");
}

TEST(TokenizerJsonTest, DeepNestingIsRefusedWithoutRecursion) {
  std::string sequence = R"({"type": "NFC"})";
  for (int depth = 0; depth < 8; ++depth) {
    sequence = R"({"type": "Sequence", "normalizers": [)" + sequence + "]}";
  }
  EXPECT_THAT(Tokenizer::Create(SmallTokenizerWith("/normalizer", sequence)), IsOk());
  sequence = R"({"type": "Sequence", "normalizers": [)" + sequence + "]}";
  EXPECT_THAT(Tokenizer::Create(SmallTokenizerWith("/normalizer", sequence)),
              StatusIs(kInvalid, HasSubstr("at most 8 nested Sequences")));
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  EXPECT_THAT(Tokenizer::Create("{\"model\": " + deep + "}"),
              StatusIs(kInvalid, HasSubstr("tokenizer: expected at most 32 levels of nesting")));
  EXPECT_FALSE(Tokenizer::Create(std::string(1 << 20, '[')).ok());
}

TEST(TokenizerJsonTest, AFileIsNamedInItsErrors) {
  const TempFolder folder;
  EXPECT_THAT(Tokenizer::Load(folder.path() + "/none.json"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none.json")));
  EXPECT_THAT(Tokenizer::Load(folder.path()),
              StatusIs(kInvalid, "cannot read " + folder.path() + ": Is a directory"));
  const std::string path = folder.Write("tokenizer.json", "[1,");
  EXPECT_THAT(Tokenizer::Load(path),
              StatusIs(kInvalid, HasSubstr(path + ": tokenizer: expected JSON")));
  folder.Write("tokenizer.json", "{}");
  EXPECT_THAT(Tokenizer::Load(path),
              StatusIs(kInvalid, path + ": model: expected an object, found none"));
  folder.Write("tokenizer.json", SmallTokenizer().dump());
  EXPECT_THAT(Tokenizer::Load(path), IsOk());
}

// Reading may succeed where the change is harmless; it must not crash.
TEST(TokenizerJsonTest, NoDamagedByteBreaksTheReader) {
  nlohmann::json json = SmallTokenizer();
  json["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"Regex", "[ab]+(?=c)"}}}, {"content", "a"}};
  const std::string intact = json.dump();
  int refused = 0;
  for (size_t i = 0; i < intact.size(); ++i) {
    for (const char damage : {'\0', '"', '9', '[', '\xff'}) {
      std::string damaged = intact;
      damaged[i] = damage;
      const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(damaged);
      refused += !tokenizer.ok();
      if (tokenizer.ok()) {
        (*tokenizer)->Encode("abc \u00e9").IgnoreError();
      }
    }
    refused += !Tokenizer::Create(intact.substr(0, i)).ok();
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace attention
