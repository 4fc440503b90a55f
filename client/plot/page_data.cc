#include "client/plot/page_data.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "client/page/color.h"
#include "client/plot/picture_facts.h"

namespace attention {
namespace {

std::string PackedWeights(const Tensor& weights, int bits) {
  std::string bytes;
  bytes.reserve(weights.num_elements() * bits / 8);
  const float* values = weights.as<float>();
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    const double weight = std::clamp(static_cast<double>(values[i]), 0.0, 1.0);
    const auto code =
        static_cast<uint32_t>(std::lround(bits == 16 ? weight * 65535 : std::sqrt(weight) * 255));
    bytes.push_back(static_cast<char>(code & 0xFF));
    if (bits == 16) {
      bytes.push_back(static_cast<char>(code >> 8));
    }
  }
  return Base64(bytes);
}

std::string PackedColors() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    const Rgb color = SequentialColor(i / 255.0);
    for (const uint8_t channel : {color.red, color.green, color.blue}) {
      bytes.push_back(static_cast<char>(channel));
    }
  }
  return Base64(bytes);
}

}  // namespace

int PageBits(const AttentionPicture& picture) {
  return NumCells(picture) <= kMaxFineCells ? 16 : 8;
}

nlohmann::json PageData(const AttentionPicture& picture) {
  nlohmann::json data = PictureFacts(picture);
  data["bits"] = PageBits(picture);
  data["colors"] = PackedColors();
  for (size_t s = 0; s < picture.sequences.size(); ++s) {
    for (size_t i = 0; i < picture.sequences[s].layers.size(); ++i) {
      data["sequences"][s]["layers"][i]["weights"] =
          PackedWeights(picture.sequences[s].layers[i].weights, PageBits(picture));
    }
  }
  return data;
}

}  // namespace attention
