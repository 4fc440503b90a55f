// The pre-tokenizer of a tokenizer.json: cuts normalized text into the words that the model sees.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/piece.h"

namespace attention {

/// Thread-safe.
class PreTokenizer {
 public:
  /// Appends the words of one piece; none is empty.
  using Step = std::function<absl::Status(Piece piece, std::vector<Piece>& words)>;

  /// The member "pre_tokenizer" of the file; null leaves a piece whole. INVALID_ARGUMENT names the
  /// member.
  static absl::StatusOr<PreTokenizer> Parse(const JsonObject& file);

  /// INVALID_ARGUMENT when a pattern takes unreasonably long. REQUIRES: `piece` is not empty.
  absl::StatusOr<std::vector<Piece>> Apply(Piece piece) const;

  /// Whether words are spelled in the alphabet of byte_level.h.
  bool is_byte_level() const { return is_byte_level_; }
  /// What a space becomes; empty where it stays one.
  const std::string& space() const { return space_; }

 private:
  std::vector<Step> steps_;
  bool is_byte_level_ = false;
  std::string space_;
};

}  // namespace attention
