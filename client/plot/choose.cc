#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/plot/picture.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status ExpectAll(const char* what, const std::vector<int64_t>& wanted,
                       const std::set<int64_t>& found) {
  for (const int64_t number : wanted) {
    if (!found.contains(number)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": expected some of ", absl::StrJoin(found, ","), ", found ", number));
    }
  }
  return absl::OkStatus();
}

void KeepHeads(const std::vector<int64_t>& heads, LayerPicture& layer) {
  const int64_t cells = std::ssize(layer.rows) * std::ssize(layer.keys);
  const bool has_head_masks = std::ssize(layer.hidden) > cells;
  LayerPicture kept = {.heads = heads,
                       .weights = Tensor(Dtype::kF32, {std::ssize(heads), std::ssize(layer.rows),
                                                       std::ssize(layer.keys)})};
  for (int64_t h = 0; h < std::ssize(heads); ++h) {
    const int64_t from =
        std::find(layer.heads.begin(), layer.heads.end(), heads[h]) - layer.heads.begin();
    std::copy_n(layer.weights.as<float>() + from * cells, cells,
                kept.weights.as<float>() + h * cells);
    if (has_head_masks) {
      const auto mask = layer.hidden.begin() + from * cells;
      kept.hidden.insert(kept.hidden.end(), mask, mask + cells);
    }
  }
  layer.heads = std::move(kept.heads);
  layer.weights = std::move(kept.weights);
  if (has_head_masks) {
    layer.hidden = std::move(kept.hidden);
  }
}

}  // namespace

absl::Status Choose(const std::vector<int64_t>& layers, const std::vector<int64_t>& heads,
                    AttentionPicture& picture) {
  for (SequencePicture& sequence : picture.sequences) {
    std::set<int64_t> numbers;
    for (const LayerPicture& layer : sequence.layers) {
      numbers.insert(layer.number);
    }
    RETURN_IF_ERROR(ExpectAll("layers", layers, numbers));
    std::erase_if(sequence.layers, [&layers](const LayerPicture& layer) {
      return !layers.empty() &&
             std::find(layers.begin(), layers.end(), layer.number) == layers.end();
    });
    for (LayerPicture& layer : sequence.layers) {
      RETURN_IF_ERROR(ExpectAll(absl::StrCat("heads of ", layer.name).c_str(), heads,
                                {layer.heads.begin(), layer.heads.end()}));
      if (!heads.empty()) {
        KeepHeads(heads, layer);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
