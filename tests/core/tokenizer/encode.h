// Tokenizers of tests, and texts for them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/tokenizer/tokenizer.h"
#include "tests/support/matchers.h"

namespace attention {

/// The tokenizer of a tokenizer.json; the test fails when it is refused.
inline std::unique_ptr<Tokenizer> Make(const std::string& json) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(json);
  EXPECT_THAT(tokenizer, IsOk());
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

/// The tokens of a text; the test fails when it is refused.
inline TokenizedText Encode(const Tokenizer& tokenizer, const std::string& text) {
  const absl::StatusOr<TokenizedText> result = tokenizer.Encode(text);
  EXPECT_THAT(result, IsOk());
  return result.value_or(TokenizedText());
}

inline std::string Repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

}  // namespace attention
