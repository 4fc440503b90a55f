// Pictures of attention in a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "client/plot/picture.h"
#include "client/plot/svg_picture.h"
#include "client/plot/terminal_brush.h"

namespace attention {

struct TerminalOptions {
  StillOptions still;
  /// Width of the terminal; what does not fit is made coarser.
  int64_t columns = 80;
  TerminalColors colors = TerminalColors::kNone;
};

/// Maps of one sequence side by side as far as they fit: cells two columns wide with the token of
/// each row where there is room for that, else a column for each key and half a line for each row.
/// Without colours in five shades. All share one scale. REQUIRES: CheckPicture, the sequence
/// exists, and at least 20 columns.
std::string TerminalPicture(const AttentionPicture& picture, const TerminalOptions& options);

}  // namespace attention
