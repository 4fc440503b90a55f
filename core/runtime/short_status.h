// Errors as others see them.
#pragma once

#include "absl/status/status.h"

namespace attention {

/// Of an error's text, in bytes; three times as many on the wire fit the 8 KiB of headers that
/// every client takes.
inline constexpr size_t kMaxStatusText = 2048;

/// The same error with its text cut in the middle where it is longer: what it quotes may be as long
/// as a request.
absl::Status Shortened(const absl::Status& status);

}  // namespace attention
