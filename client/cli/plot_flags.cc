#include "client/cli/plot_flags.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

constexpr char kPicture[] = "The picture";
constexpr char kFile[] = "Weights from a file";
constexpr std::pair<const char*, PictureFormat> kFormats[] = {
    {"terminal", PictureFormat::kTerminal},
    {"svg", PictureFormat::kSvg},
    {"html", PictureFormat::kHtml}};
constexpr int64_t kLeastColumns = 20;

void AddFileFlags(CLI::App& command, PlotFlags& flags) {
  command
      .add_option("FILE", flags.file,
                  "What `attend run --output` wrote, or FILE.npy or FILE.safetensors[:TENSOR] with "
                  "weights [H,Sq,Sk], [L,H,Sq,Sk] or [L,N,H,Sq,Sk], or a layer in each tensor")
      ->type_name("")
      ->group(kFile);
  command
      .add_option(
          "--tokens-from", flags.tokens_from,
          "Tokens of a FILE: lines of a text, or JSON: a list, a list for each sequence, or "
          "{\"rows\": list, \"keys\": list}")
      ->type_name("FILE")
      ->group(kFile);
  command
      .add_option("--first-axis", flags.first_axis,
                  "What four axes count first: layers, or sequences")
      ->type_name("AXIS")
      ->capture_default_str()
      ->check(CLI::IsMember({"layers", "sequences"}).description(""))
      ->group(kFile);
}

void AddTerminalFlags(CLI::App& command, PlotFlags& flags) {
  command.add_option("--width", flags.width, "Columns of the terminal; default: all of it")
      ->type_name("N")
      ->check(CLI::Range(kLeastColumns, int64_t{10000}).description(""))
      ->group(kPicture);
  command
      .add_option("--color", flags.color, "auto, none, 256 or 24bit: what the terminal can show")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "none", "256", "24bit"}).description(""))
      ->group(kPicture);
  command.add_flag("--no-color", flags.no_color, "Shades instead of colours")->group(kPicture);
}

void AddPictureFlags(CLI::App& command, PlotFlags& flags) {
  command
      .add_option("-o,--output", flags.output,
                  "FILE.html or FILE.svg, or - for standard output; default: the terminal")
      ->type_name("FILE")
      ->group(kPicture);
  command
      .add_option("--format", flags.format,
                  "terminal, svg or html; default: as the output is called")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"terminal", "svg", "html"}).description(""))
      ->group(kPicture);
  command.add_option("--sequence", flags.sequence, "Which one is drawn; html has all of them")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber.description(""))
      ->group(kPicture);
  command
      .add_flag(
          "--mean", flags.mean,
          "One map a layer, the mean of its heads; the terminal's way unless heads are chosen")
      ->group(kPicture);
  AddTerminalFlags(command, flags);
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

int64_t ColumnsOfTerminal() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  constexpr int64_t kUsualColumns = 80;
  return kUsualColumns;
}

}  // namespace

void AddPlotFlags(CLI::App& command, PlotFlags& flags) {
  AddFileFlags(command, flags);
  AddServerFlags(command, flags.server);
  AddRequestFlags(command, flags.request);
  // Their answers are not in the picture.
  command.remove_option(command.get_option("--pool"));
  command.remove_option(command.get_option("--logits"));
  AddPictureFlags(command, flags);
}

absl::Status CheckPlotFlags(const PlotFlags& flags) {
  const bool has_file = !flags.file.empty();
  const auto wrong = [](const char* text) { return absl::InvalidArgumentError(text); };
  if (has_file && flags.request.has_input()) {
    return wrong("expected a FILE or something to send, found both");
  }
  if (!has_file && !flags.request.has_input()) {
    return wrong("expected a FILE, or something to send, such as --text");
  }
  if (!has_file && !flags.tokens_from.empty()) {
    return wrong("--tokens-from goes with a FILE");
  }
  if (has_file && !flags.request.attention.mask.empty()) {
    return wrong("--mask goes with something to send");
  }
  if (flags.format.empty() && !flags.output.empty() && !FormatOfName(flags.output).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: expected FILE.html, FILE.svg or FILE.txt, or --format, found \"",
                     flags.output, "\""));
  }
  if (has_file) {
    return absl::OkStatus();
  }
  RequestFlags request = flags.request;
  // Of a whole stack, all layers unless some are chosen; --weights-heads chooses of those.
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
  return {.still = {.sequence = flags.sequence,
                    .mean = flags.mean || flags.request.run.weights_heads.empty()},
          .columns = std::max(kLeastColumns, flags.width.value_or(ColumnsOfTerminal())),
          .colors = ColorsOf(flags)};
}

}  // namespace attention
