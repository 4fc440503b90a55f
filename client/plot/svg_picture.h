// Pictures of attention for documents.
#pragma once

#include <string>

#include "client/plot/picture.h"

namespace attention {

/// What of a picture is drawn where not all of it is.
struct StillOptions {
  int64_t sequence = 0;  // an index
  bool mean = false;     // one map a layer, the mean of its heads
};

/// A standalone SVG file, dark on light: up to 4 maps have their tokens on both axes; more stand in
/// a grid, layers down and heads across. All share one scale of colours. REQUIRES: CheckPicture,
/// and `options.sequence` exists.
std::string SvgPicture(const AttentionPicture& picture, const StillOptions& options);

}  // namespace attention
