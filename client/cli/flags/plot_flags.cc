#include "client/cli/flags/plot_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/files/terminal_size.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr int64_t kLeastColumns = 20;

void AddPictureFlags(CLI::App& command, PlotFlags& flags) {
  HelpGroup group(command, "The picture");
  group.Value("-o,--output", flags.output, "FILE",
              "FILE.html, FILE.svg or FILE.txt, or - for standard output; default: the terminal");
  group.Choice("--format", flags.format, "terminal|svg|html",
               "Default: by the ending of the output's name");
  group
      .Default("--sequence", flags.sequence, "N",
               "The sequence to draw; html has all of them, and shows this one first")
      ->check(AtLeast(0));
  group.Switch("--mean", flags.mean,
               "One map for each layer, the mean of its heads; the terminal's default unless heads "
               "are chosen, and what html shows first");
  group.Value("--width", flags.width, "N", "Columns of the terminal; default: all of them")
      ->check(Within(kLeastColumns, int64_t{10000}));
  group
      .Choice("--color", flags.color, "auto|none|24bit",
              "Colours of the terminal; none: shades; auto: as the terminal says (COLORTERM)")
      ->capture_default_str();
}

bool HasColors(const PlotFlags& flags) {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string colors = value_of("COLORTERM");
  const bool is_to_stdout = flags.output.empty() || flags.output == "-";
  return flags.color == "auto"
             ? is_to_stdout && isatty(STDOUT_FILENO) == 1 && value_of("NO_COLOR").empty() &&
                   value_of("TERM") != "dumb" && (colors == "truecolor" || colors == "24bit")
             : flags.color == "24bit";
}

}  // namespace

void AddPlotFlags(CLI::App& command, PlotFlags& flags) {
  HelpGroup(command, "Weights from a file")
      .Value("FILE", flags.file, "",
             "FILE.safetensors that `attend run --output` wrote with weights, or any with tensors "
             "weights.SEQUENCE or layer_weights.LAYER.SEQUENCE of [heads, rows, keys]");
  AddServerFlags(command, flags.server);
  const size_t num_others = command.get_options().size();
  AddRequestFlags(command, flags.request);
  // Pictures have no such answers.
  command.remove_option(command.get_option("--pool"));
  command.remove_option(command.get_option("--logits"));
  const std::vector<CLI::Option*> options = command.get_options();
  std::copy_if(options.begin() + num_others, options.end(), std::back_inserter(flags.of_request),
               [](const CLI::Option* option) {
                 return option->get_name() != "--weights-layers" &&
                        option->get_name() != "--weights-heads";
               });
  AddPictureFlags(command, flags);
}

absl::Status CheckPlotFlags(const PlotFlags& flags) {
  const bool has_file = !flags.file.empty();
  const auto given = std::find_if(flags.of_request.begin(), flags.of_request.end(),
                                  [](const CLI::Option* option) { return option->count() > 0; });
  RETURN_IF_ERROR(CheckRules(
      {{has_file && flags.request.has_input(), "expected a FILE or something to send, found both"},
       {!has_file && !flags.request.has_input(),
        "expected a FILE, or something to send, such as --text"}}));
  if (has_file && given != flags.of_request.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        (*given)->get_name(), " needs something to send; a FILE has the weights of its request"));
  }
  if (FormatOf(flags).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: expected FILE.html, FILE.svg or FILE.txt, or --format, found \"",
                     flags.output, "\""));
  }
  if (FormatOf(flags) != "terminal" && (flags.width.has_value() || flags.color != "auto")) {
    return absl::InvalidArgumentError(absl::StrCat(flags.width.has_value() ? "--width" : "--color",
                                                   " needs --format terminal, found ",
                                                   FormatOf(flags)));
  }
  if (has_file) {
    return absl::OkStatus();
  }
  RequestFlags request = flags.request;
  // Without --weights-layers, --weights-heads chooses heads of all layers.
  if (request.run.weights_layers.empty()) {
    request.run.weights_heads.clear();
  }
  return CheckRequestFlags(request);
}

std::string FormatOf(const PlotFlags& flags) {
  if (!flags.format.empty() || flags.output.empty() || flags.output == "-") {
    return flags.format.empty() ? "terminal" : flags.format;
  }
  const std::string extension = std::filesystem::path(flags.output).extension();
  return extension == ".txt"                           ? "terminal"
         : extension == ".svg" || extension == ".html" ? extension.substr(1)
                                                       : "";
}

TerminalOptions TerminalOf(const PlotFlags& flags) {
  return {
      .still = {.sequence = flags.sequence,
                .mean = flags.mean || flags.request.run.weights_heads.empty()},
      .columns = std::max(kLeastColumns,
                          flags.width.value_or(SizeOfTerminal().value_or(TerminalSize()).columns)),
      .has_colors = HasColors(flags)};
}

}  // namespace attention
