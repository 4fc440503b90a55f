#include "core/runtime/utf8.h"

#include <cstdint>

namespace attention {

std::optional<Character> FirstCharacter(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) {
    return Character{first, 1};
  }
  const size_t num_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < num_bytes) {
    return std::nullopt;
  }
  char32_t code = first & (0x7F >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) {
      return std::nullopt;
    }
    code = (code << 6) | (byte & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[num_bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return std::nullopt;
  }
  return Character{code, num_bytes};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::optional<Character> character = FirstCharacter({text.data() + at, text.size() - at});
    if (!character.has_value()) {
      return at;
    }
    at += character->num_bytes;
  }
  return std::nullopt;
}

}  // namespace attention
