// Text to token ids, as the `tokenizers` library (huggingface/tokenizers, 0.23) has it: a
// tokenizer.json is read, and its added tokens, normalizer, pre-tokenizer, model (BPE or WordPiece)
// and post-processor are applied. README.md names what of each is known.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

struct TokenizedText {
  std::vector<int32_t> ids;  // each in [0, vocab_size)
  // For a person to read, one per id: " cat" where the vocabulary has "Ġcat" or "▁cat"; a byte that
  // is no UTF-8 on its own is shown as \xNN.
  std::vector<std::string> tokens;
  std::vector<int32_t> type_ids;  // one per id, as the template says; else 0
};

/// Immutable after creation; thread-safe.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json. INVALID_ARGUMENT names the member, what was expected and
  /// what was found.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const std::string& json);
  /// From a file. NOT_FOUND when it cannot be opened; else as Create, and names the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Takes time of O(n log n) in the bytes of `text`. INVALID_ARGUMENT for text that is not UTF-8
  /// (names the byte) or longer than 64 MiB, for a character that the model can neither spell nor
  /// call unknown, and for text on which a pattern of the tokenizer takes unreasonably long.
  absl::StatusOr<TokenizedText> Encode(std::string_view text, bool add_special_tokens = true) const;

  /// The text that `id` stands for: " cat" where the vocabulary has "Ġcat" or "▁cat". Its bytes may
  /// end within a character. Empty for an id that has no token.
  std::string_view BytesOf(int32_t id) const;

  /// The largest id + 1, added tokens included.
  int64_t vocab_size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace attention
