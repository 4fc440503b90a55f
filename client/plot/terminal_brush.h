// Cells of a map as characters of a terminal.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace attention
