// Pictures of attention for documents: vector graphics, or pixels made of them.
#pragma once

#include <string>

#include "absl/status/status.h"
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

/// Draws `svg` with `rsvg-convert` (librsvg), `zoom` pixels for each of its units, into the file at
/// `path`; "-" is standard output. librsvg is a program to run and not a library to link, so that
/// whoever does not want pictures does without its many dependencies. FAILED_PRECONDITION when it
/// is not installed, which names the package.
absl::Status WritePng(const std::string& svg, double zoom, const std::string& path);

}  // namespace attention
