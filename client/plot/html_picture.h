// Pictures of attention as a page to explore.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/plot/picture.h"

namespace attention {

/// One self-contained HTML file: all layers and heads in small, one of them in large with tokens on
/// both axes, and who attends to whom by name. REQUIRES: CheckPicture, and a sequence with a layer.
std::string HtmlPicture(const AttentionPicture& picture);

/// PictureFacts with {colors}, and `weights` in each layer; both in base64: colors are 256 times
/// red, green, blue; weights, [heads, rows, keys], are weight * 65535 in 16 bits, low byte first.
/// REQUIRES: CheckPicture.
nlohmann::json PageData(const AttentionPicture& picture);

}  // namespace attention
