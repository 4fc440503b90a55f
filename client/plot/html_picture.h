// Pictures of attention as a page to explore.
#pragma once

#include <string>

#include "client/plot/picture.h"

namespace attention {

/// One self-contained HTML file: all layers and heads in small, one of them in large with tokens on
/// both axes, and who attends to whom by name. REQUIRES: CheckPicture, and a sequence with a layer.
std::string HtmlPicture(const AttentionPicture& picture);

}  // namespace attention
