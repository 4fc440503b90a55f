// Errors in the form that clients receive.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention {

/// The longest text of an error, in bytes. Escaping may triple it on the wire, which still fits the
/// 8 KiB of headers that every client accepts.
inline constexpr size_t kMaxStatusText = 2048;

/// Returns the error in a form that can be shown. Its text may quote a request of any size, so
/// control characters are escaped (`\x1b`, `\u202e`; ReplaceControls), and a text longer than
/// kMaxStatusText is cut in its middle, where it says how much is left out.
absl::Status Presented(const absl::Status& status);

/// Returns the error with another text; its code and payloads stay.
absl::Status WithText(const absl::Status& status, absl::string_view text);

}  // namespace attention
