// The change between two readings of statistics, and the output of `attend top`.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/files/terminal_size.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Subtracts the numbers of `before` from those of `after`, which leaves the counts and times
/// between the two readings. A model keeps its version; a model that `before` does not have keeps
/// its numbers. Returns `after` itself if the server was restarted in between: then its uptime is
/// less than before, or than the time that has `elapsed` between the readings.
v1::ServerStatistics ChangeBetween(const v1::ServerStatistics& before,
                                   const v1::ServerStatistics& after, absl::Duration elapsed);

struct TopView {
  std::string server;
  std::string time;  // "21:30:05"
  v1::ServerStatistics statistics;
  /// The change between the last reading and this one, by ChangeBetween.
  v1::ServerStatistics change;
};

/// Returns aligned lines; the models with the most requests come first. Control characters in names
/// from the server are replaced, so that they cannot control the terminal.
std::string TopText(const TopView& view);

/// Returns why there is no answer, in lines that are no wider than the terminal, above the values
/// of the last answer.
std::string NoAnswerText(const TopView& view, const absl::Status& status,
                         const std::optional<TerminalSize>& terminal);

/// Returns the lines of `text` that fit the terminal, each cut to its width.
std::string FitTo(const TerminalSize& size, const std::string& text);

}  // namespace attention
