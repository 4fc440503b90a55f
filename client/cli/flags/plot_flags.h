// The flags of `attend plot`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/flags/request_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/plot/terminal_picture.h"

namespace attention {

struct PlotFlags {
  ClientOptions server;
  RequestFlags request;
  std::string file;
  std::string output;
  std::string format;  // empty: by the extension of the output
  int64_t sequence = 0;
  bool mean = false;
  std::optional<int64_t> width;
  std::string color = "auto";
  /// The flags of the request, refused beside a file of an answer. The parser owns them.
  std::vector<const CLI::Option*> of_request;
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddPlotFlags(CLI::App& command, PlotFlags& flags);

/// Returns INVALID_ARGUMENT for flags that are valid alone and cannot be combined.
absl::Status CheckPlotFlags(const PlotFlags& flags);

/// Returns the format of the picture: "terminal", "svg" or "html"; empty if the output's name says
/// none.
std::string FormatOf(const PlotFlags& flags);

/// Returns the options for the terminal at standard output. Colours and width are those of the
/// terminal, unless the flags say otherwise; there are no colours if standard output is not a
/// terminal or NO_COLOR (no-color.org) is set.
TerminalOptions TerminalOf(const PlotFlags& flags);

}  // namespace attention
