// Pictures of attention as a page to explore.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/plot/picture.h"

namespace attention {

/// Returns a self-contained HTML file: an overview of all layers and heads, a large map of one of
/// them with tokens on both axes, and lists of which token attends to which. `sequence` is the one
/// that is shown first. REQUIRES: CheckPicture, and that every sequence has a layer.
std::string HtmlPicture(const AttentionPicture& picture, int64_t sequence);

/// Returns PictureFacts with {colors}, and with `largest` and `weights` in each layer. `largest` is
/// the largest weight of each head. `colors`, 256 times red, green, blue, and `weights` are base64;
/// weights, [heads, rows, keys], are sqrt(weight / largest) * 65535 in 16 bits, low byte first, so
/// that small ones keep their digits. REQUIRES: CheckPicture.
nlohmann::json PageData(const AttentionPicture& picture);

}  // namespace attention
