// Pictures of attention in a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "client/plot/picture.h"
#include "client/plot/svg_picture.h"

namespace attention {

struct TerminalOptions {
  StillOptions still;
  /// Width of the terminal. Maps that do not fit are reduced.
  int64_t columns = 80;
  bool has_colors = false;  // of 24 bits
};

/// Returns the maps of one sequence, side by side if they fit. Cells are two columns wide, with the
/// token of each row, if there is room; else a cell is one column wide, and more than 12 rows are
/// combined, two or more in a cell. Without colours there are five shades. All maps share one
/// scale. REQUIRES: CheckPicture, the sequence exists, and at least 20 columns.
std::string TerminalPicture(const AttentionPicture& picture, const TerminalOptions& options);

}  // namespace attention
