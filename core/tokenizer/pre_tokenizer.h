// The pre-tokenizer of a tokenizer.json: cuts normalized text into the words that the model sees.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/piece.h"
#include "core/tokenizer/split.h"

namespace attention {

/// Thread-safe.
class PreTokenizer {
 public:
  /// Hands on the words of one piece; none is empty.
  using Step = std::function<absl::Status(Piece piece, PieceSink words)>;

  /// The member "pre_tokenizer" of the file; null leaves a piece whole. INVALID_ARGUMENT names the
  /// member.
  static absl::StatusOr<PreTokenizer> Parse(const JsonObject& file);

  /// Hands on the words one by one, so that a text of many needs no memory for them.
  /// INVALID_ARGUMENT when a pattern takes unreasonably long. REQUIRES: `piece` is not empty.
  absl::Status Apply(Piece piece, PieceSink words) const {
    return ApplyFrom(0, std::move(piece), words);
  }

  /// Whether words are spelled in the alphabet of byte_level.h.
  bool is_byte_level() const { return is_byte_level_; }
  /// What a space becomes; empty where it stays one.
  const std::string& space() const { return space_; }

 private:
  /// Steps `first` and those behind it.
  absl::Status ApplyFrom(size_t first, Piece piece, PieceSink words) const;

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
  std::string space_;
};

}  // namespace attention
