// The added tokens of a tokenizer.json. They are found in the text before the model splits it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/piece.h"
#include "core/tokenizer/trie.h"
#include "core/tokenizer/vocabulary.h"

namespace attention {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not beside a letter or digit
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;
  bool normalized = false;  // it and the text are normalized before it is looked for
};

/// A part of the text, or an added token found in it.
struct Segment {
  static constexpr int32_t kText = -1;

  Piece piece;         // empty for a token
  int32_t id = kText;  // of the token
};

/// The added tokens of one file. Thread-safe.
class AddedTokens {
 public:
  /// Reads the member "added_tokens" of the file. As in the library, a token that the vocabulary
  /// lacks gets the next id, and its "id" is ignored. INVALID_ARGUMENT names the token.
  static absl::StatusOr<AddedTokens> Parse(const JsonObject& file, const Vocabulary& vocabulary,
                                           const Normalizer& normalizer);

  /// A function that receives text and tokens one by one, in order. An error that it returns ends
  /// the search.
  using SegmentSink = absl::FunctionRef<absl::Status(Segment segment)>;

  /// Finds in `text` the tokens that are not normalized.
  absl::Status SplitText(Piece text, SegmentSink segments) const;
  /// Finds the other tokens in normalized text.
  absl::Status SplitNormalized(Piece text, SegmentSink segments) const;

  const std::map<int32_t, AddedToken>& tokens() const { return tokens_; }

 private:
  absl::Status Add(const JsonObject& object, const Vocabulary& vocabulary);
  absl::Status BuildTries(const Normalizer& normalizer);
  absl::Status Split(const Trie& trie, Piece text, SegmentSink segments) const;

  std::map<int32_t, AddedToken> tokens_;  // by id
  std::map<std::string, int32_t> ids_;
  int32_t next_id_ = 0;
  Trie in_text_;
  Trie in_normalized_;
};

}  // namespace attention
