#include "client/cli/show/save_answer.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/show/answer_picture.h"
#include "client/plot/picture_facts.h"
#include "client/plot/token_text.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status SaveAnswer(const std::string& path, AttentionClient& client,
                        const AttendRequest& request, const AttendResult& result) {
  NamedValues tensors;
  for (size_t s = 0; s < result.weights.size(); ++s) {
    tensors.emplace(absl::StrCat("weights.", s), &result.weights[s]);
  }
  for (size_t s = 0; s < result.log_sum_exp.size(); ++s) {
    tensors.emplace(absl::StrCat("log_sum_exp.", s), &result.log_sum_exp[s]);
  }
  for (const LayerWeights& layer : result.layer_weights) {
    tensors.emplace(absl::StrCat("layer_weights.", layer.layer, ".", layer.sequence),
                    &layer.weights);
  }
  for (size_t s = 0; s < result.top_weights.size(); ++s) {
    const LargestWeights& top = result.top_weights[s];
    tensors.emplace(absl::StrCat("top_weights.", s), &top.weights);
    tensors.emplace(absl::StrCat("top_keys.", s), ValuesToStore(top.weights.shape(), top.keys));
  }
  SafetensorsMetadata metadata;
  const bool has_weights = !result.weights.empty() || !result.layer_weights.empty();
  if (has_weights && absl::EndsWith(path, ".safetensors")) {
    ASSIGN_OR_RETURN(const AttentionPicture picture, PictureOfAnswer(client, request, result));
    metadata[kPictureFacts] =
        PictureFacts(picture).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  return SaveTensors(path, result.output, std::move(tensors), metadata);
}

namespace {

std::string NamesOf(const NamedTensors& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const auto& tensor) {
    absl::StrAppend(out, tensor.first, " ", ShapeText(tensor.second.shape()));
  });
}

/// The name of a tensor of weights: "layer_weights.LAYER.SEQUENCE", or "weights.SEQUENCE".
struct WeightsName {
  int64_t sequence = 0;
  std::optional<int64_t> layer = {};
};

/// Parses a number as a program writes it: "7", not "07" or "-1".
bool ParseNumber(const std::string& text, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= 0 && absl::StrCat(*number) == text;
}

std::optional<WeightsName> ParseWeightsName(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  WeightsName found;
  if (parts.size() == 2 && parts[0] == "weights" && ParseNumber(parts[1], &found.sequence)) {
    return found;
  }
  if (parts.size() == 3 && parts[0] == "layer_weights" &&
      ParseNumber(parts[1], &found.layer.emplace()) && ParseNumber(parts[2], &found.sequence)) {
    return found;
  }
  return std::nullopt;
}

/// The picture of weights that have names and shapes, and nothing else: tokens are numbers, and no
/// cell is hidden.
AttentionPicture PictureOfTensors(const std::string& path, const NamedTensors& tensors) {
  std::map<int64_t, std::map<int64_t, LayerPicture>> sequences;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<WeightsName> found = ParseWeightsName(name);
    if (!found.has_value() || tensor.shape().size() != 3 || tensor.num_elements() == 0) {
      continue;
    }
    LayerPicture& layer = sequences[found->sequence][found->layer.value_or(-1)];
    layer.name = found->layer.has_value() ? absl::StrCat("layer ", *found->layer) : "attention";
    layer.number = found->layer.value_or(0);
    layer.weights = tensor.ConvertedTo(Dtype::kF32);
    layer.tensor_name = name;
    for (int64_t head = 0; head < tensor.shape()[0]; ++head) {
      layer.heads.push_back(head);
    }
    layer.rows = NumberedTokens(tensor.shape()[1]);
    layer.keys = NumberedTokens(tensor.shape()[2]);
  }
  AttentionPicture picture = {.title = "Attention", .source = ShownLine(path)};
  for (auto& [number, layers] : sequences) {
    SequencePicture& sequence = picture.sequences.emplace_back();
    sequence.name = absl::StrCat("sequence ", number);
    for (auto& [ignored, layer] : layers) {
      sequence.layers.push_back(std::move(layer));
    }
  }
  return picture;
}

}  // namespace

absl::StatusOr<AttentionPicture> PictureOfFile(const std::string& path) {
  if (!absl::EndsWith(path, ".safetensors")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected FILE.safetensors with attention weights"));
  }
  ASSIGN_OR_RETURN(const SafetensorsMetadata metadata, ReadSafetensorsMetadata(path));
  ASSIGN_OR_RETURN(NamedTensors tensors, ReadSafetensors(path));
  if (const auto facts = metadata.find(kPictureFacts); facts != metadata.end()) {
    return PictureFrom(facts->second, std::move(tensors));
  }
  AttentionPicture picture = PictureOfTensors(path, tensors);
  if (picture.sequences.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": expected tensors weights.SEQUENCE or layer_weights.LAYER.SEQUENCE of shape "
        "[heads, rows, keys], as attend run --weights or --weights-layers writes them, found ",
        tensors.empty() ? "none" : NamesOf(tensors)));
  }
  return picture;
}

}  // namespace attention
