#include "client/cli/show/save_answer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/show/answer_picture.h"
#include "client/plot/picture_facts.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status SaveAnswer(const std::string& path, AttentionClient& client,
                        const AttendRequest& request, const AttendResult& result) {
  std::map<std::string, const Tensor*> tensors = {{"output", &result.output}};
  for (size_t s = 0; s < result.weights.size(); ++s) {
    tensors[absl::StrCat("weights.", s)] = &result.weights[s];
  }
  for (size_t s = 0; s < result.log_sum_exp.size(); ++s) {
    tensors[absl::StrCat("log_sum_exp.", s)] = &result.log_sum_exp[s];
  }
  for (const LayerWeights& layer : result.layer_weights) {
    tensors[absl::StrCat("layer_weights.", layer.layer, ".", layer.sequence)] = &layer.weights;
  }
  std::deque<Tensor> keys;  // as FP32, which holds them exactly
  for (size_t s = 0; s < result.top_weights.size(); ++s) {
    const LargestWeights& top = result.top_weights[s];
    Tensor& values = keys.emplace_back(Dtype::kF32, top.weights.shape());
    std::copy(top.keys.begin(), top.keys.end(), values.as<float>());
    tensors[absl::StrCat("top_weights.", s)] = &top.weights;
    tensors[absl::StrCat("top_keys.", s)] = &values;
  }
  SafetensorsMetadata metadata;
  const bool has_weights = !result.weights.empty() || !result.layer_weights.empty();
  if (has_weights && absl::EndsWith(path, ".safetensors")) {
    ASSIGN_OR_RETURN(const AttentionPicture picture, PictureOfAnswer(client, request, result));
    metadata[kPictureFacts] =
        PictureFacts(picture).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  return SaveTensors(path, tensors, metadata);
}

absl::StatusOr<AttentionPicture> PictureOfFile(const std::string& path) {
  SafetensorsMetadata metadata;
  if (absl::EndsWith(path, ".safetensors")) {
    ASSIGN_OR_RETURN(metadata, ReadSafetensorsMetadata(path));
  }
  const auto facts = metadata.find(kPictureFacts);
  if (facts == metadata.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a FILE.safetensors that attend run --output wrote with weights"));
  }
  ASSIGN_OR_RETURN(NamedTensors tensors, ReadSafetensors(path));
  return PictureFrom(facts->second, std::move(tensors));
}

}  // namespace attention
