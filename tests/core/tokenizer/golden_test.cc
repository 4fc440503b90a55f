// The answers of the `tokenizers` library in tests/data/tokenizers, which its README.md describes.
#include <fstream>
#include <string>
#include <vector>

#include "core/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/matchers.h"

namespace attention {
namespace {

const std::string kFolder = ATTEND_TEST_DATA "/tokenizers/";

nlohmann::json LoadJson(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(kFolder + name));
}

const nlohmann::json& Cases() {
  static const nlohmann::json cases = LoadJson("cases.json");
  return cases;
}

class TokenizerGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // `kind` is the member of cases.json with the answers.
  void ExpectIds(const std::string& kind, bool add_special_tokens) const {
    const auto tokenizer = Tokenizer::Load(kFolder + GetParam() + "/tokenizer.json");
    ASSERT_THAT(tokenizer, IsOk());
    const auto texts = Cases().at("texts").get<std::vector<std::string>>();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string& text = texts[i];
      const absl::StatusOr<TokenizedText> found =
          (*tokenizer)->Encode(text, {.add_special_tokens = add_special_tokens});
      ASSERT_THAT(found, IsOk()) << text;
      EXPECT_EQ(found->ids, Cases().at(kind).at(GetParam())[i].get<std::vector<int32_t>>()) << text;
      EXPECT_EQ(found->tokens.size(), found->ids.size()) << text;
      EXPECT_EQ(found->type_ids, std::vector<int32_t>(found->ids.size())) << text;
    }
  }
};

TEST_P(TokenizerGoldenTest, HasTheIdsOfTheLibrary) { ExpectIds("ids", true); }

TEST_P(TokenizerGoldenTest, HasTheIdsOfTheLibraryWithoutSpecialTokens) {
  ExpectIds("plain", false);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldenTest,
                         ::testing::Values("gpt2", "roberta", "llama3", "qwen", "neox", "clip",
                                           "llama2", "mistral", "gemma", "phi3", "bert_uncased",
                                           "bert_cased", "xlm_roberta", "camembert"),
                         [](const auto& test) { return test.param; });

// A tokenizer whose ids below 256 are the bytes of its words, with | behind each word.
nlohmann::json SpellingTokenizer(const nlohmann::json& step) {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    vocabulary[name] = byte;
  }
  nlohmann::json tokenizer = {{"model",
                               {{"type", "BPE"},
                                {"vocab", vocabulary},
                                {"merges", nlohmann::json::array()},
                                {"byte_fallback", true},
                                {"end_of_word_suffix", "|"}}}};
  tokenizer.update(step);
  return tokenizer;
}

std::string Spelled(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 256) {
      text += static_cast<char>(id);
    } else {
      text += "{" + std::to_string(id) + "}";
    }
  }
  return text;
}

TEST(TokenizerStepTest, EachStepDoesWhatItDoesInTheLibrary) {
  const nlohmann::json golden = LoadJson("steps.json");
  const auto texts = golden.at("texts").get<std::vector<std::string>>();
  const auto steps = golden.at("steps").get<std::vector<nlohmann::json>>();
  ASSERT_GE(steps.size(), 60u);
  for (const nlohmann::json& step : steps) {
    nlohmann::json members = step;
    members.erase("results");
    const auto tokenizer = Tokenizer::Create(SpellingTokenizer(members).dump());
    ASSERT_THAT(tokenizer, IsOk()) << members;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string& text = texts[i];
      const absl::StatusOr<TokenizedText> found = (*tokenizer)->Encode(text);
      ASSERT_THAT(found, IsOk()) << members << text;
      EXPECT_EQ(Spelled(found->ids), step.at("results")[i].get<std::string>()) << members << text;
    }
  }
}

}  // namespace
}  // namespace attention
