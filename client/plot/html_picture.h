// Pictures of attention as a page to explore.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/plot/picture.h"

namespace attention {

/// One self-contained HTML file: all layers and heads in small, one of them in large with tokens on
/// both axes, and who attends to whom by name. REQUIRES: CheckPicture, and a sequence with a layer.
std::string HtmlPicture(const AttentionPicture& picture);

/// Bits that each weight of a page takes: 16 up to kMaxFineCells weights, 8 beyond.
inline constexpr int64_t kMaxFineCells = int64_t{4} << 20;
int PageBits(const AttentionPicture& picture);

/// PictureFacts with {bits, colors}, and `weights` in each layer; both in base64: colors are 256
/// times red, green, blue; weights, [heads, rows, keys], are weight * 65535, low byte first, where
/// they have 16 bits, and sqrt(weight) * 255, finest where most weights are, where they have 8.
/// REQUIRES: CheckPicture.
nlohmann::json PageData(const AttentionPicture& picture);

}  // namespace attention
