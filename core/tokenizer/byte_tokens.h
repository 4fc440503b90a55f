// Tokens that stand for single bytes, for characters that a vocabulary lacks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/vocabulary.h"

namespace attention {

/// The tokens <0x00> to <0xFF> of a vocabulary, as far as it has them. Thread-safe.
class ByteTokens {
 public:
  explicit ByteTokens(const Vocabulary& vocabulary) {
    for (int byte = 0; byte < 256; ++byte) {
      ids_[byte] = vocabulary.Find(ByteTokenName(static_cast<uint8_t>(byte)));
    }
  }

  /// Appends the tokens of the bytes of `text`. Returns false, with nothing appended, unless there
  /// is a token for each byte.
  bool Append(std::string_view text, std::vector<int32_t>& ids) const {
    const auto id_of = [&](char byte) { return ids_[static_cast<uint8_t>(byte)]; };
    if (!std::ranges::all_of(text, [&](char byte) { return id_of(byte).has_value(); })) {
      return false;
    }
    for (const char byte : text) {
      ids.push_back(*id_of(byte));
    }
    return true;
  }

 private:
  std::array<std::optional<int32_t>, 256> ids_;
};

}  // namespace attention
