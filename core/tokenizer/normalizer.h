// The normalizer of a tokenizer.json: what happens to text before it is split.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/piece.h"

namespace attention {

/// Thread-safe.
class Normalizer {
 public:
  /// `max_bytes`: what may become of the piece.
  using Step = std::function<absl::Status(size_t max_bytes, Piece& piece)>;

  /// The member "normalizer" of the file; null does nothing. INVALID_ARGUMENT names the member.
  static absl::StatusOr<Normalizer> Parse(const JsonObject& file);

  /// INVALID_ARGUMENT when a pattern takes unreasonably long, or when the piece becomes longer than
  /// any known normalizer makes it: 16 times as long, and 1 KiB.
  absl::Status Apply(Piece& piece) const;

  /// What a space becomes; empty where it stays one.
  const std::string& space() const { return space_; }

 private:
  std::vector<Step> steps_;
  std::string space_;
};

}  // namespace attention
