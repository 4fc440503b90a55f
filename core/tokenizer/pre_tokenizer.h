// The pre-tokenizer of a tokenizer.json: splits normalized text into the words that the model
// tokenizes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/tokenizer/piece.h"
#include "core/tokenizer/split.h"

namespace attention {

/// The pre-tokenizer of one file. Thread-safe.
class PreTokenizer {
 public:
  /// A step, which passes on the words of one piece. No word is empty.
  using Step = std::function<absl::Status(Piece piece, PieceSink words)>;

  /// Reads the member "pre_tokenizer" of the file; null leaves a piece whole. INVALID_ARGUMENT
  /// names the member.
  static absl::StatusOr<PreTokenizer> Parse(const JsonObject& file);

  /// Passes on the words one by one, so that they need no memory. INVALID_ARGUMENT when a pattern
  /// needs too many steps. REQUIRES: `piece` is not empty.
  absl::Status Apply(Piece piece, PieceSink words) const {
    return ApplyFrom(0, std::move(piece), words);
  }

  /// Returns whether words are written in the alphabet of byte_level.h.
  bool is_byte_level() const { return is_byte_level_; }
  /// Returns the text that replaces a space; empty when a space stays a space.
  const std::string& space() const { return space_; }

 private:
  /// Applies step `first` and all later steps.
  absl::Status ApplyFrom(size_t first, Piece piece, PieceSink words) const;

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
  std::string space_;
};

}  // namespace attention
