// Pictures of attention in a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "client/plot/picture.h"
#include "client/plot/svg_picture.h"

namespace attention {

enum class TerminalColors { kNone, k256, k24Bit };

/// How one cell looks: a weight's share of the scale, 0..1, or that it is hidden.
struct TerminalCell {
  double share = 0;
  bool is_hidden = false;
};

/// Turns cells into characters; a hidden one is dots.
class TerminalBrush {
 public:
  explicit TerminalBrush(TerminalColors colors) : colors_(colors) {}

  bool has_colors() const { return colors_ != TerminalColors::kNone; }

  /// A cell that is some columns wide.
  std::string Wide(const TerminalCell& cell, int64_t columns) const;

  /// Two cells in one column, one above the other. REQUIRES: has_colors.
  std::string Halves(const TerminalCell& upper, const TerminalCell& lower) const;

 private:
  std::string Escape(int layer, const TerminalCell& cell) const;

  TerminalColors colors_;
};

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
