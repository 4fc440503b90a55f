// Characters that change how the text around them is shown, in texts that may quote anybody.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace attention {

/// Returns the UTF-8 text with replacement(code) for each control character (U+0000 to U+001F,
/// U+007F to U+009F), separator of lines (U+2028, U+2029), and character that turns the direction
/// of writing (Unicode Annex 9). Terminals obey some of them. Bytes that are not UTF-8 stay.
std::string ReplaceControls(absl::string_view text,
                            absl::FunctionRef<std::string(uint32_t code)> replacement);

/// Returns the character as JSON escapes it: \u202e, and a pair of such escapes beyond U+FFFF.
std::string JsonEscape(uint32_t code);

}  // namespace attention
