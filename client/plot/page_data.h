// What a page of pictures carries for its scripts (plot_data.js reads it).
#pragma once

#include <nlohmann/json.hpp>

#include "client/plot/picture.h"

namespace attention {

/// Bits that each weight of a page takes: 16 up to kMaxFineCells weights, 8 beyond.
inline constexpr int64_t kMaxFineCells = int64_t{4} << 20;
int PageBits(const AttentionPicture& picture);

/// PictureFacts with {bits, colors}, and `weights` in each layer; both in base64: colors are 256
/// times red, green, blue; weights, [heads, rows, keys], are weight * 65535, low byte first, where
/// they have 16 bits, and sqrt(weight) * 255, finest where most weights are, where they have 8.
/// REQUIRES: CheckPicture.
nlohmann::json PageData(const AttentionPicture& picture);

}  // namespace attention
