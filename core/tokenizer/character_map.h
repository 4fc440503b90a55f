// SentencePiece's map of characters, "precompiled_charsmap": by what each character, or a character
// with its marks, is replaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/tokenizer/piece.h"

namespace attention {

/// A map. Immutable; thread-safe.
class CharacterMap {
 public:
  /// Reads the member "precompiled_charsmap" of a step, at most 4 MiB in base64: the size of a trie
  /// in bytes (32 bits, as all numbers little-endian), the trie as Darts writes it
  /// (https://github.com/s-yata/darts-clone), and the replacements, each with a zero behind it.
  /// INVALID_ARGUMENT names the member; no text makes a map that was read leave its bounds.
  static absl::StatusOr<CharacterMap> Parse(const JsonObject& step);

  /// Replaces the characters of the piece. INTERNAL when ICU fails (out of memory).
  absl::Status Apply(Piece& piece) const;

 private:
  absl::Status Check(const JsonObject& step) const;
  /// Returns the replacement of the shortest key with which `text` begins.
  std::optional<std::string_view> Find(std::string_view text) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace attention
