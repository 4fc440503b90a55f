// Pictures of attention as a page to explore.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/plot/picture.h"

namespace attention {

/// Returns a self-contained HTML file: an overview of all layers and heads, a large map of one of
/// them with tokens on both axes, and lists of which token attends to which. REQUIRES:
/// CheckPicture, and a sequence with a layer.
std::string HtmlPicture(const AttentionPicture& picture);

/// Returns PictureFacts with {colors}, and with `weights` in each layer, both in base64: colors are
/// 256 times red, green, blue; weights, [heads, rows, keys], are weight * 65535 in 16 bits, low
/// byte first. REQUIRES: CheckPicture.
nlohmann::json PageData(const AttentionPicture& picture);

}  // namespace attention
