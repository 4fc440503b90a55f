// What `attend top` shows, as text.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "client/top/top_rates.h"
#include "nlohmann/json.hpp"

namespace attention {

enum class TopOrder { kRate, kTime, kFailures, kName };

/// The order after `order`, the last one before the first.
TopOrder NextOrder(TopOrder order);
/// "rate", "time", "failures" or "name".
const char* Name(TopOrder order);

/// One point of the history.
struct TopPoint {
  double answered_per_s = 0;
  double busy_share = 0;
  double total_ms = 0;  // 0: nothing was answered
};

struct TopView {
  std::string server;
  /// "21:30:05".
  std::string time;
  v1::ServerStatistics statistics;
  TopRates rates;
  /// Oldest first.
  std::deque<TopPoint> history;
  TopOrder order = TopOrder::kRate;
  bool is_paused = false;
  /// Why there was no answer, if there was none: what is shown is from before.
  std::string trouble;
};

struct TopLayout {
  int width = 80;
  /// Lines at most; 0: as many as there are models to show.
  int height = 0;
  /// Bold, dim and reversed text, by escape sequences; and the keys, in the last line.
  bool is_screen = false;
  /// Bars of the history in block characters, instead of ASCII.
  bool has_blocks = true;
};

/// Lines, each at most `width` columns wide and with its '\n'. Names that the server gives cannot
/// control the terminal. Narrow ones lose the history first, then columns from the right.
std::string TopText(const TopView& view, const TopLayout& layout);

/// One object, without history.
nlohmann::json TopJson(const TopView& view);

/// A line of bars, one for each of the last `width` values, up to `largest` (if > 0; else the
/// largest of them), aligned right.
std::string Sparkline(const std::deque<double>& values, int width, double largest, bool has_blocks);

}  // namespace attention
