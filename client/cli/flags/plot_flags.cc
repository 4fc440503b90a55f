#include "client/cli/flags/plot_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/terminal_size.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr std::pair<const char*, PictureFormat> kFormats[] = {
    {"terminal", PictureFormat::kTerminal},
    {"svg", PictureFormat::kSvg},
    {"html", PictureFormat::kHtml}};
constexpr int64_t kLeastColumns = 20;

void AddPictureFlags(CLI::App& command, PlotFlags& flags) {
  HelpGroup group(command, "The picture");
  group.Value("-o,--output", flags.output, "FILE",
              "FILE.html or FILE.svg, or - for standard output; default: the terminal");
  group.Choice("--format", flags.format, "terminal|svg|html",
               "Default: by the ending of the output's name");
  group.Default("--sequence", flags.sequence, "N", "The sequence to draw; html has all of them")
      ->check(CLI::NonNegativeNumber.description(""));
  group.Switch("--mean", flags.mean,
               "One map for each layer, the mean of its heads; the terminal's default unless heads "
               "are chosen");
  group.Value("--width", flags.width, "N", "Columns of the terminal; default: all of them")
      ->check(Within(kLeastColumns, int64_t{10000}));
  group.Choice("--color", flags.color, "auto|none|256|24bit", "Colours of the terminal")
      ->capture_default_str();
  group.Switch("--no-color", flags.no_color, "Shades instead of colours");
}

std::optional<PictureFormat> FormatOfName(const std::string& output) {
  for (const auto& [name, format] : kFormats) {
    if (absl::EndsWith(output, absl::StrCat(".", name)) && format != PictureFormat::kTerminal) {
      return format;
    }
  }
  return absl::EndsWith(output, ".txt") ? std::optional(PictureFormat::kTerminal) : std::nullopt;
}

TerminalColors ColorsOf(const PlotFlags& flags) {
  const auto has = [](const char* name, std::string_view text) {
    const char* value = std::getenv(name);
    return value != nullptr && std::string_view(value).find(text) != std::string_view::npos;
  };
  const char* no_color = std::getenv("NO_COLOR");
  const bool is_off = flags.no_color || flags.color == "none";
  if (is_off || flags.color != "auto") {
    return is_off                 ? TerminalColors::kNone
           : flags.color == "256" ? TerminalColors::k256
                                  : TerminalColors::k24Bit;
  }
  const bool is_terminal = flags.output.empty() && isatty(STDOUT_FILENO) == 1;
  if (!is_terminal || (no_color != nullptr && *no_color != '\0') || has("TERM", "dumb")) {
    return TerminalColors::kNone;
  }
  if (has("COLORTERM", "truecolor") || has("COLORTERM", "24bit")) {
    return TerminalColors::k24Bit;
  }
  return has("TERM", "256color") ? TerminalColors::k256 : TerminalColors::kNone;
}

}  // namespace

void AddPlotFlags(CLI::App& command, PlotFlags& flags) {
  HelpGroup(command, "Weights from a file")
      .Value("FILE", flags.file, "",
             "FILE.safetensors with weights, written by `attend run --output`");
  AddServerFlags(command, flags.server);
  AddRequestFlags(command, flags.request);
  // Pictures have no such answers.
  command.remove_option(command.get_option("--pool"));
  command.remove_option(command.get_option("--logits"));
  AddPictureFlags(command, flags);
}

absl::Status CheckPlotFlags(const PlotFlags& flags) {
  const bool has_file = !flags.file.empty();
  RETURN_IF_ERROR(CheckRules(
      {{has_file && flags.request.has_input(), "expected a FILE or something to send, found both"},
       {!has_file && !flags.request.has_input(),
        "expected a FILE, or something to send, such as --text"},
       {has_file && flags.request.attention.is_given(),
        "a FILE says what its request hid; how to attend goes with something to send"}}));
  if (flags.format.empty() && !flags.output.empty() && !FormatOfName(flags.output).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: expected FILE.html, FILE.svg or FILE.txt, or --format, "
                     "found \"",
                     flags.output, "\""));
  }
  if (has_file) {
    return absl::OkStatus();
  }
  RequestFlags request = flags.request;
  // Without --weights-layers, --weights-heads chooses heads of all layers.
  request.run.weights_heads = request.run.weights_layers.empty() ? "" : request.run.weights_heads;
  return CheckRequestFlags(request);
}

PictureFormat FormatOf(const PlotFlags& flags) {
  for (const auto& [name, format] : kFormats) {
    if (flags.format == name) {
      return format;
    }
  }
  return FormatOfName(flags.output).value_or(PictureFormat::kTerminal);
}

TerminalOptions TerminalOf(const PlotFlags& flags) {
  return {
      .still = {.sequence = flags.sequence,
                .mean = flags.mean || flags.request.run.weights_heads.empty()},
      .columns = std::max(kLeastColumns,
                          flags.width.value_or(SizeOfTerminal().value_or(TerminalSize()).columns)),
      .colors = ColorsOf(flags)};
}

}  // namespace attention
