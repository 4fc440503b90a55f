// Converts text to the token ids of the `tokenizers` library (huggingface/tokenizers, 0.23). It
// reads a tokenizer.json and applies its added tokens, normalizer, pre-tokenizer, model (BPE,
// WordPiece or Unigram) and post-processor. README.md lists the supported parts of each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/yield.h"

namespace attention {

struct TokenizedText {
  std::vector<int32_t> ids;  // each in [0, vocab_size)
  // The tokens as readable text, one per id: " cat" where the vocabulary has "Ġcat" or "▁cat". A
  // byte that is not valid UTF-8 is shown as \xNN.
  std::vector<std::string> tokens;
  std::vector<int32_t> type_ids;  // one per id: that of the template, else 0
};

struct EncodeOptions {
  bool add_special_tokens = true;
  /// The limit of ids, special tokens included. A longer text is refused as early as possible.
  std::optional<int64_t> max_tokens = {};
  /// A function that is called between parts of the text; false ends the work with CANCELLED. May
  /// be null.
  Yield yield = nullptr;
};

/// A tokenizer. Immutable after creation; thread-safe.
class Tokenizer {
 public:
  /// Makes a tokenizer from the text of a tokenizer.json. INVALID_ARGUMENT names the member, what
  /// was expected and what was found.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const std::string& json);
  /// Makes a tokenizer from a file. NOT_FOUND when it cannot be opened; INVALID_ARGUMENT when it
  /// has more than 64 MiB; otherwise the errors of Create, which then name the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Tokenizes `text`, in O(n log n) time and with about 25 bytes of memory for each byte of
  /// `text`, besides the result. INVALID_ARGUMENT for text that is not UTF-8 (names the byte), that
  /// is longer than 64 MiB or has more than `max_tokens` ids, for a character that is not in the
  /// vocabulary of a model without an unknown token, and for text for which a pattern needs too
  /// many steps. CANCELLED when `yield` returned false.
  absl::StatusOr<TokenizedText> Encode(std::string_view text,
                                       const EncodeOptions& options = {}) const;

  /// Returns the longest text, in bytes, that Encode accepts with `max_tokens`. Encode refuses
  /// longer texts by their length, before it reads them. For each token the limit is 4 times the
  /// longest token of the vocabulary (normalizing shortens texts by up to that factor) and at least
  /// 256 bytes, since any amount of white space or any unknown word may become one token or none.
  /// REQUIRES: max_tokens >= 0.
  int64_t MaxTextBytes(int64_t max_tokens) const;

  /// Returns the text of `id`: " cat" where the vocabulary has "Ġcat" or "▁cat". Its bytes may end
  /// within a character. It is empty for an id without a token.
  std::string_view BytesOf(int32_t id) const;

  /// Returns the size of the vocabulary: the largest id + 1, added tokens included.
  int64_t vocab_size() const;

 private:
  struct Parts;
  class Encoding;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace attention
