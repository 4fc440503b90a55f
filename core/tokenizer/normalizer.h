// The normalizer of a tokenizer.json, which changes text before it is split.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/tokenizer/piece.h"

namespace attention {

/// The normalizer of one file. Thread-safe.
class Normalizer {
 public:
  /// A step. `max_bytes` is the largest size of the result.
  using Step = std::function<absl::Status(size_t max_bytes, Piece& piece)>;

  /// Reads the member "normalizer" of the file; null does nothing. INVALID_ARGUMENT names the
  /// member.
  static absl::StatusOr<Normalizer> Parse(const JsonObject& file);

  /// Normalizes the piece. INVALID_ARGUMENT when a pattern needs too many steps, or when the piece
  /// becomes longer than 16 times its size plus 1 KiB, which no known normalizer does.
  absl::Status Apply(Piece& piece) const;

  /// Returns the text that replaces a space; empty when a space stays a space.
  const std::string& space() const { return space_; }

 private:
  std::vector<Step> steps_;
  std::string space_;
};

}  // namespace attention
