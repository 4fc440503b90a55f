// Small pictures within pictures: one byte a cell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/page/color.h"

namespace attention {

/// A picture whose pixels are indices into a palette.
struct IndexedImage {
  int64_t width = 0;            // at least 1
  int64_t height = 0;           // at least 1
  std::vector<uint8_t> pixels;  // [height, width], each less than palette's size
  std::vector<Rgb> palette;     // 2 to 256; index 0 is transparent, whatever its colour
};

/// A PNG file (W3C Portable Network Graphics, colour type 3).
std::string Png(const IndexedImage& image);

}  // namespace attention
