// What a refusal tells beside its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace attention {

/// Milliseconds.
struct Refusal {
  /// When it is worth trying again.
  int64_t retry_after_ms = 0;
  /// How long the request would have waited.
  int64_t estimated_wait_ms = 0;
};

/// A status that carries `refusal`.
absl::Status Refuse(absl::StatusCode code, const std::string& text, const Refusal& refusal);

/// Null when the status carries none.
std::optional<Refusal> RefusalOf(const absl::Status& status);

}  // namespace attention
