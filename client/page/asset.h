// A style sheet or script that is a file in the source tree and a constant in the program.
#pragma once

namespace attention {

/// Made by `attend_embed` in client/CMakeLists.txt.
struct Asset {
  const char* text;
  /// SHA-256 of the text, 32 bytes.
  const char* sha256;
};

}  // namespace attention
