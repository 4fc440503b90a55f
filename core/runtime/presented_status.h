// Errors as others see them.
#pragma once

#include "absl/status/status.h"

namespace attention {

/// Of an error's text, in bytes; three times as many on the wire fit the 8 KiB of headers that
/// every client takes.
inline constexpr size_t kMaxStatusText = 2048;

/// The same error for who did not write its text, which may quote as much as a request has:
/// control characters are escaped (`\x1b`), and a longer text is cut in its middle, where it says
/// how much is left out.
absl::Status Presented(const absl::Status& status);

}  // namespace attention
