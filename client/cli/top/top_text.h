// The output of `attend top`.
#pragma once

#include <string>

#include "client/cli/files/terminal_size.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

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

/// The lines of `text` that fit the terminal, each cut to its width.
std::string FitTo(const TerminalSize& size, const std::string& text);

}  // namespace attention
