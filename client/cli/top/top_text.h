// The change between two readings of statistics, and the output of `attend top`.
#pragma once

#include <string>

#include "client/cli/files/terminal_size.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// `after` with each number less that of `before`, which makes counts and times those of the time
/// between the two; a model keeps its version, and one that `before` does not have its numbers. If
/// the server was restarted in between, `after` itself.
v1::ServerStatistics ChangeBetween(const v1::ServerStatistics& before,
                                   const v1::ServerStatistics& after);

struct TopView {
  std::string server;
  std::string time;  // "21:30:05"
  v1::ServerStatistics statistics;
  /// ChangeBetween the last reading and this one.
  v1::ServerStatistics change;
};

/// Aligned lines; the models with the most requests come first. Names from the server cannot
/// control the terminal.
std::string TopText(const TopView& view);

/// Returns the lines of `text` that fit the terminal, each cut to its width.
std::string FitTo(const TerminalSize& size, const std::string& text);

}  // namespace attention
