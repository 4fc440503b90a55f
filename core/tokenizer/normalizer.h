// The normalizer of a tokenizer.json: what happens to text before it is split.
#pragma once

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
  using Step = std::function<absl::Status(Piece&)>;

  /// The member "normalizer" of the file; null does nothing. INVALID_ARGUMENT names the member.
  static absl::StatusOr<Normalizer> Parse(const JsonObject& file);

  /// INVALID_ARGUMENT when a pattern takes unreasonably long.
  absl::Status Apply(Piece& piece) const;

  /// What a space becomes; empty where it stays one.
  const std::string& space() const { return space_; }

 private:
  std::vector<Step> steps_;
  std::string space_;
};

}  // namespace attention
