// The flags of `attend plot`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/flags/request_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/plot/terminal_picture.h"

namespace attention {

enum class PictureFormat { kTerminal, kSvg, kHtml };

struct PlotFlags {
  ServerFlags server;
  RequestFlags request;
  std::string file;
  std::string output;
  std::string format;  // empty: as the output is called
  int64_t sequence = 0;
  bool mean = false;
  std::optional<int64_t> width;
  std::string color = "auto";
  bool no_color = false;
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddPlotFlags(CLI::App& command, PlotFlags& flags);

/// INVALID_ARGUMENT when the flags, each fine alone, do not go together.
absl::Status CheckPlotFlags(const PlotFlags& flags);

/// REQUIRES: CheckPlotFlags is OK.
PictureFormat FormatOf(const PlotFlags& flags);

/// Colours and width of the terminal at standard output, as far as the flags leave them open: no
/// colours where it is no terminal, or NO_COLOR (no-color.org) is set.
TerminalOptions TerminalOf(const PlotFlags& flags);

}  // namespace attention
