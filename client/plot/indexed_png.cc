#include "client/plot/indexed_png.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attention {
namespace {

std::string BigEndian(uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  }
  return bytes;
}

std::string Chunk(absl::string_view type, const std::string& data) {
  const std::string body = absl::StrCat(type, data);
  const uint64_t sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return absl::StrCat(BigEndian(data.size()), body, BigEndian(sum));
}

/// Each line begins with its filter, of which 0 is none.
std::string Lines(const IndexedImage& image) {
  std::string lines;
  for (int64_t y = 0; y < image.height; ++y) {
    lines.push_back('\0');
    const uint8_t* line = image.pixels.data() + y * image.width;
    lines.append(line, line + image.width);
  }
  return lines;
}

std::string Compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string compressed(size, '\0');
  // compressBound is enough, so that this cannot fail.
  compress(reinterpret_cast<Bytef*>(compressed.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  compressed.resize(size);
  return compressed;
}

}  // namespace

std::string Png(const IndexedImage& image) {
  constexpr absl::string_view kSignature("\x89PNG\r\n\x1A\n", 8);
  constexpr absl::string_view kEightBitPalette("\x08\x03\x00\x00\x00", 5);
  std::string palette;
  for (const Rgb& color : image.palette) {
    for (const uint8_t channel : {color.red, color.green, color.blue}) {
      palette.push_back(static_cast<char>(channel));
    }
  }
  return absl::StrCat(kSignature,
                      Chunk("IHDR", absl::StrCat(BigEndian(image.width), BigEndian(image.height),
                                                 kEightBitPalette)),
                      Chunk("PLTE", palette), Chunk("tRNS", std::string(1, '\0')),
                      Chunk("IDAT", Compressed(Lines(image))), Chunk("IEND", ""));
}

}  // namespace attention
