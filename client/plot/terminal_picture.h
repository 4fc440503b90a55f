// Pictures of attention in a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "client/plot/picture.h"
#include "client/plot/svg_picture.h"

namespace attention {

enum class TerminalColors { kNone, k256, k24Bit };

struct TerminalOptions {
  StillOptions still;
  /// Width of the terminal. Maps that do not fit are reduced.
  int64_t columns = 80;
  TerminalColors colors = TerminalColors::kNone;
};

/// Maps of one sequence, side by side if they fit. Cells are two columns wide, with the token of
/// each row, if there is room; else a key has a column and a row has half a line. Without colours
/// there are five shades. All maps share one scale. REQUIRES: CheckPicture, the sequence exists,
/// and at least 20 columns.
std::string TerminalPicture(const AttentionPicture& picture, const TerminalOptions& options);

}  // namespace attention
