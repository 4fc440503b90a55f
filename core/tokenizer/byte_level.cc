#include "core/tokenizer/byte_level.h"

#include <array>
#include <cstdio>
#include <optional>

#include "core/runtime/utf8.h"
#include "core/tokenizer/unicode.h"

namespace attention {
namespace {

constexpr int32_t kMovedBytes = 0x100;  // the first character of those that are not themselves

constexpr bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<int16_t, 256> kCharacters = [] {
  std::array<int16_t, 256> characters{};
  int16_t moved = kMovedBytes;
  for (int16_t byte = 0; byte < 256; ++byte) {
    characters[byte] = IsPrintable(byte) ? byte : moved++;
  }
  return characters;
}();

constexpr std::array<int16_t, 0x144> kBytes = [] {
  std::array<int16_t, 0x144> bytes{};
  for (int16_t& byte : bytes) {
    byte = -1;
  }
  for (int16_t byte = 0; byte < 256; ++byte) {
    bytes[kCharacters[byte]] = byte;
  }
  return bytes;
}();

}  // namespace

int32_t ByteCharacter(uint8_t byte) { return kCharacters[byte]; }

std::string BytesOf(const std::string& token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const int32_t character = NextCharacter(token, at);
    if (character >= static_cast<int32_t>(kBytes.size()) || kBytes[character] < 0) {
      return token;
    }
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

std::string ByteTokenName(uint8_t byte) {
  char name[8];
  std::snprintf(name, sizeof(name), "<0x%02X>", byte);
  return name;
}

std::string ShownBytes(std::string_view bytes) {
  std::string shown;
  while (const std::optional<size_t> invalid = FindInvalidUtf8(bytes)) {
    char escaped[5];
    std::snprintf(escaped, sizeof(escaped), "\\x%02X", static_cast<uint8_t>(bytes[*invalid]));
    shown.append(bytes.substr(0, *invalid)).append(escaped);
    bytes.remove_prefix(*invalid + 1);
  }
  return shown.append(bytes);
}

}  // namespace attention
