// Text to token ids, as the `tokenizers` library (huggingface/tokenizers, 0.23) has it: a
// tokenizer.json is read, and its added tokens, normalizer, pre-tokenizer, model (BPE or WordPiece)
// and post-processor are applied. README.md names what of each is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

struct EncodeOptions {
  bool add_special_tokens = true;
  /// A text of more ids, special ones included, is refused, as early as that shows.
  std::optional<int64_t> max_tokens = {};
  /// Asked between parts of the text; false ends the work with CANCELLED. May be null.
  std::function<bool()> go_on = nullptr;
};

/// Immutable after creation; thread-safe.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json. INVALID_ARGUMENT names the member, what was expected and
  /// what was found.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const std::string& json);
  /// From a file. NOT_FOUND when it cannot be opened; INVALID_ARGUMENT for one of more than 64 MiB;
  /// else as Create, and names the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Takes time of O(n log n) in the bytes of `text`, and memory of some 25 bytes for each, besides
  /// the answer. INVALID_ARGUMENT for text that is not UTF-8
  /// (names the byte), longer than 64 MiB or of more than `max_tokens` ids, for a character that
  /// the model can neither spell nor call unknown, and for text on which a pattern of the tokenizer
  /// takes unreasonably long. CANCELLED when `go_on` said so.
  absl::StatusOr<TokenizedText> Encode(std::string_view text,
                                       const EncodeOptions& options = {}) const;

  /// Longest text, in bytes, that Encode takes with `max_tokens`; it refuses longer ones by their
  /// length, before it looks at them. For each token it is 4 times the longest of the vocabulary
  /// (normalizing makes texts that much shorter), and at least 256 bytes, for white space and
  /// unknown words, of which any number may become no token or one. REQUIRES: max_tokens >= 0.
  int64_t MaxTextBytes(int64_t max_tokens) const;

  /// The text that `id` stands for: " cat" where the vocabulary has "Ġcat" or "▁cat". Its bytes may
  /// end within a character. Empty for an id that has no token.
  std::string_view BytesOf(int32_t id) const;

  /// The largest id + 1, added tokens included.
  int64_t vocab_size() const;

 private:
  struct Parts;
  class Encoding;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace attention
