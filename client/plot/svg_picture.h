// Pictures of attention for documents.
#pragma once

#include <string>

#include "client/plot/picture.h"

namespace attention {

/// The part of a picture that an SVG or the terminal shows.
struct StillOptions {
  int64_t sequence = 0;  // an index
  bool mean = false;     // one map for each layer, the mean of its heads
};

/// Returns a standalone SVG file, dark on light: up to 4 maps have tokens on both axes; more maps
/// form a grid, layers down and heads across. All maps share one scale of colours. REQUIRES:
/// CheckPicture, and `options.sequence` exists.
std::string SvgPicture(const AttentionPicture& picture, const StillOptions& options);

}  // namespace attention
