// Reads UTF-8 (RFC 3629: no surrogates, no overlong forms).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/strings/string_view.h"

namespace attention {

struct Character {
  char32_t code = 0;
  size_t num_bytes = 0;
};

/// Returns the first character of `text`; absent if its bytes are not valid UTF-8. REQUIRES: `text`
/// is not empty.
std::optional<Character> FirstCharacter(absl::string_view text);
/// Returns the position of the first byte that is not valid UTF-8; absent if all are.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

}  // namespace attention
