// The model of a tokenizer.json, which splits a word into tokens of its vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/runtime/yield.h"
#include "core/tokenizer/vocabulary.h"

namespace attention {

/// A model: BPE, WordPiece or Unigram. Immutable; thread-safe.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  /// Appends the ids of one word. INVALID_ARGUMENT when the word needs the unknown token and the
  /// vocabulary lacks it; CANCELLED when `yield` returned false. REQUIRES: `word` is not empty, and
  /// valid UTF-8.
  virtual absl::Status Tokenize(std::string_view word, const Yield& yield,
                                std::vector<int32_t>& ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
  /// Returns whether tokens <0x00> to <0xFF> represent bytes.
  virtual bool has_byte_tokens() const = 0;
};

/// Reads the member "model" of the file. INVALID_ARGUMENT names the member.
absl::StatusOr<std::unique_ptr<SubwordModel>> ParseSubwordModel(const JsonObject& file);

/// Read the kinds of model; `model` is the file's member of that name.
absl::StatusOr<std::unique_ptr<SubwordModel>> ParseBytePairModel(const JsonObject& model);
absl::StatusOr<std::unique_ptr<SubwordModel>> ParseWordPieceModel(const JsonObject& model);
absl::StatusOr<std::unique_ptr<SubwordModel>> ParseUnigramModel(const JsonObject& model);

}  // namespace attention
