#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/flags/plot_flags.h"
#include "client/cli/show/answer_picture.h"
#include "client/cli/show/save_answer.h"
#include "client/plot/html_picture.h"
#include "client/plot/svg_picture.h"
#include "core/runtime/output_file.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kPlotExamples[] = R"(Examples:
  attend plot --model gpt2 --text "The cat sat on the mat" -o cat.html
  attend plot --model gpt2 --text "The cat sat" --weights-layers 3 --weights-heads 0,5
  attend plot --tokens 17,4,250,3,9 --causal -o layer.svg
  attend run --model gpt2 --text "The cat" --weights-layers 0,1 --output answer.safetensors
  attend plot answer.safetensors -o answer.svg && rsvg-convert answer.svg -o answer.png

html shows all layers and heads as small maps, one as a large map, and lists of the largest weights.
svg shows up to four maps with their tokens, or all of them in a grid. Cells that are hidden from a
row are striped (dots in the terminal); request options and the model's layers say which they are.
With --layer N that layer runs alone, on embeddings or the rows that are sent; without, all layers
run, and the weights are those that each has in the model.

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

/// Chooses all layers that run and have weights.
void ChooseAllLayers(const v1::Model& model, AttendRequest& request) {
  int layers = model.layers_size();
  const auto* input = std::get_if<HiddenStatesInput>(&request.input);
  if (model.has_encoder() && input != nullptr && input->tensor == nullptr) {
    // Only the encoder runs. Its layers come first; each block of the decoder has two.
    for (const v1::Layer& layer : model.layers()) {
      layers -= layer.is_cross() ? 2 : 0;
    }
  }
  for (int layer = 0; layer < layers; ++layer) {
    request.weights_choice.add_layers(layer);
  }
}

absl::Status AskForWeights(AttentionClient& client, AttendRequest& request) {
  v1::Model model;
  if (!request.model.empty()) {
    ASSIGN_OR_RETURN(model, client.GetModel(request.model, request.model_version));
  }
  if (request.layer.has_value() || !model.has_stack()) {
    request.options.set_return_weights(true);
    request.weights_choice.Clear();  // ChooseShown chooses from the answer
  } else if (request.weights_choice.layers().empty()) {
    ChooseAllLayers(model, request);
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionPicture> PictureOfServer(const PlotFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  ASSIGN_OR_RETURN(Workload workload, MakeWorkload(flags.request, *client));
  RETURN_IF_ERROR(AskForWeights(*client, workload.request));
  // The weights of a whole stack may exceed the size of one message.
  StreamSink sink;
  sink.assemble = true;
  ASSIGN_OR_RETURN(const AttendResult result, client->AttendStream(workload.request, sink));
  return PictureOfAnswer(*client, workload.request, result);
}

/// Keeps the layers and heads that the flags choose, and checks the picture.
absl::Status ChooseShown(const PlotFlags& flags, AttentionPicture& picture) {
  const ModelFlags& run = flags.request.run;
  RETURN_IF_ERROR(Choose(run.weights_layers, run.weights_heads, picture));
  if (flags.sequence >= std::ssize(picture.sequences)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sequence: expected less than ", picture.sequences.size(), ", found ", flags.sequence));
  }
  return CheckPicture(picture);
}

std::string Draw(const PlotFlags& flags, const AttentionPicture& picture) {
  const std::string format = FormatOf(flags);
  return format == "terminal" ? TerminalPicture(picture, TerminalOf(flags))
         : format == "svg" ? SvgPicture(picture, {.sequence = flags.sequence, .mean = flags.mean})
                           : HtmlPicture(picture, flags.sequence);
}

absl::Status Plot(const PlotFlags& flags) {
  if (!flags.output.empty() && flags.output != "-") {
    RETURN_IF_ERROR(CheckWritable(flags.output));
    RETURN_IF_ERROR(CheckOtherFile(flags.output, {flags.file}));
  }
  ASSIGN_OR_RETURN(AttentionPicture picture,
                   flags.file.empty() ? PictureOfServer(flags) : PictureOfFile(flags.file));
  if (picture.sequences.empty()) {
    return absl::NotFoundError("there are no attention weights to draw");
  }
  RETURN_IF_ERROR(ChooseShown(flags, picture));
  RETURN_IF_ERROR(WriteOutput(flags.output.empty() ? "-" : flags.output, Draw(flags, picture)));
  if (!flags.output.empty() && flags.output != "-") {
    std::cerr << "wrote " << flags.output << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlotCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<PlotFlags>();
  CLI::App* const command =
      app.add_subcommand("plot", "Draw which token attends to which: HTML, SVG or terminal");
  AddPlotFlags(*command, *flags);
  command->footer(absl::StrCat(kShapeLegend, kPlotExamples));
  command->callback([flags, &exit_code] {
    RequireUsage(CheckPlotFlags(*flags));
    exit_code = ExitCodeOf(Plot(*flags));
  });
}

}  // namespace attention
