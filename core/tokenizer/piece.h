// A part of the text on its way through normalizer and pre-tokenizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "core/tokenizer/unicode.h"

namespace attention {

struct Piece {
  std::string text;
  // The number of bytes at the front of `text` that come from the first character of the whole
  // text. Inserted text counts like the text behind it. Metaspace needs to know whether there are
  // any.
  size_t first_bytes = 0;

  Piece Slice(size_t begin, size_t end) const {
    const size_t first_end = std::clamp(first_bytes, begin, end);
    return {.text = text.substr(begin, end - begin), .first_bytes = first_end - begin};
  }
};

/// Replaces each character of the piece: append(character, text) appends its replacement.
template <typename Append>
void Rewrite(Piece& piece, Append append) {
  Piece rewritten;
  rewritten.text.reserve(piece.text.size());
  for (size_t at = 0; at < piece.text.size();) {
    append(NextCharacter(piece.text, at), rewritten.text);
    if (at <= piece.first_bytes) {
      rewritten.first_bytes = rewritten.text.size();
    }
  }
  piece = std::move(rewritten);
}

/// Inserts `text` at the front of the piece, unless the piece is empty.
inline void Prepend(const std::string& text, Piece& piece) {
  if (!piece.text.empty()) {
    piece.text.insert(0, text);
    piece.first_bytes += piece.first_bytes > 0 ? text.size() : 0;
  }
}

}  // namespace attention
