#include "client/plot/picture.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/runtime/counted.h"
#include "core/runtime/round_up.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

// Rounding may lift a weight a little above 1.
constexpr float kMostWeight = 1.001F;

absl::Status CheckWeights(const LayerPicture& layer) {
  const int64_t rows = layer.weights.shape()[1], keys = layer.weights.shape()[2];
  const float* weights = layer.weights.as<float>();
  for (int64_t i = 0; i < layer.weights.num_elements(); ++i) {
    if (!(weights[i] >= 0.0F && weights[i] <= kMostWeight)) {
      const int64_t num_nan = std::count_if(weights + i, weights + layer.weights.num_elements(),
                                            [](float weight) { return std::isnan(weight); });
      return absl::InvalidArgumentError(absl::StrCat(
          layer.name, ": expected weights of 0 to 1, found ", weights[i], " at head ",
          layer.heads[i / (rows * keys)], ", row ", i / keys % rows, ", key ", i % keys,
          std::isnan(weights[i]) ? absl::StrCat(" (", Counted(num_nan, "weight"), " of ",
                                                layer.weights.num_elements(), " are NaN)")
                                 : " (are these logits, from before the softmax?)"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayer(const LayerPicture& layer) {
  const Shape& shape = layer.weights.shape();
  if (shape.size() != 3 || shape[0] != std::ssize(layer.heads) ||
      shape[1] != std::ssize(layer.rows) || shape[2] != std::ssize(layer.keys)) {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.name, ": expected weights [", layer.heads.size(), ", ", layer.rows.size(), ", ",
        layer.keys.size(), "] for its heads and tokens, found ", ShapeText(shape)));
  }
  if (std::max(shape[1], shape[2]) > kMaxPictureTokens) {
    return absl::ResourceExhaustedError(absl::StrCat(layer.name, ": a picture has at most ",
                                                     kMaxPictureTokens, " rows and keys, found ",
                                                     ShapeText(shape)));
  }
  return CheckWeights(layer);
}

/// Adds the weights of one head, times `share`.
void AddHead(const LayerPicture& layer, int64_t head, float share, WeightGrid& grid) {
  const int64_t cells = grid.rows * grid.keys;
  const float* weights = layer.weights.as<float>() + head * cells;
  const bool has_heads = std::ssize(layer.hidden) > cells;
  const uint8_t* hidden =
      layer.hidden.empty() ? nullptr : layer.hidden.data() + (has_heads ? head * cells : 0);
  for (int64_t i = 0; i < cells; ++i) {
    grid.weights[i] += share * weights[i];
    grid.hidden[i] = hidden != nullptr && hidden[i] != 0 ? grid.hidden[i] : 0;
  }
}

int64_t CellsEach(int64_t cells, int64_t most) {
  return std::max<int64_t>(1, CeilDiv(cells, most));
}

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

WeightGrid GridOf(const LayerPicture& layer, std::optional<int64_t> head) {
  const Shape& shape = layer.weights.shape();
  WeightGrid grid{.rows = shape[1],
                  .keys = shape[2],
                  .weights = std::vector<float>(shape[1] * shape[2], 0.0F),
                  .hidden = std::vector<uint8_t>(shape[1] * shape[2], 1)};
  if (head.has_value()) {
    AddHead(layer, *head, 1.0F, grid);
  }
  for (int64_t h = 0; h < shape[0] && !head.has_value(); ++h) {
    AddHead(layer, h, 1.0F / static_cast<float>(shape[0]), grid);
  }
  return grid;
}

WeightGrid Pooled(const WeightGrid& grid, int64_t max_rows, int64_t max_keys) {
  const int64_t rows_each = CellsEach(grid.rows, max_rows),
                keys_each = CellsEach(grid.keys, max_keys);
  WeightGrid pooled{.rows = CellsEach(grid.rows, rows_each) * (grid.rows > 0),
                    .keys = CellsEach(grid.keys, keys_each) * (grid.keys > 0),
                    .rows_each = grid.rows_each * rows_each,
                    .keys_each = grid.keys_each * keys_each};
  pooled.weights.assign(pooled.rows * pooled.keys, 0.0F);
  pooled.hidden.assign(pooled.rows * pooled.keys, 1);
  for (int64_t i = 0; i < grid.rows; ++i) {
    for (int64_t j = 0; j < grid.keys; ++j) {
      const int64_t from = i * grid.keys + j;
      const int64_t to = i / rows_each * pooled.keys + j / keys_each;
      pooled.weights[to] = std::max(pooled.weights[to], grid.weights[from]);
      pooled.hidden[to] = std::min(pooled.hidden[to], grid.hidden[from]);
    }
  }
  return pooled;
}

float LargestWeight(const WeightGrid& grid) {
  return grid.weights.empty() ? 0.0F : *std::max_element(grid.weights.begin(), grid.weights.end());
}

std::string HeadName(const LayerPicture& layer, std::optional<int64_t> head) {
  if (head.has_value() || layer.heads.size() == 1) {
    return absl::StrCat("head ", layer.heads[head.value_or(0)]);
  }
  return absl::StrCat("mean of ", layer.heads.size(), " heads");
}

std::vector<Panel> PanelsOf(const SequencePicture& sequence, bool mean) {
  std::vector<Panel> panels;
  for (const LayerPicture& layer : sequence.layers) {
    if (mean) {
      panels.push_back({&layer, std::nullopt});
    }
    for (int64_t head = 0; head < std::ssize(layer.heads) && !mean; ++head) {
      panels.push_back({&layer, head});
    }
  }
  return panels;
}

double ScaledShare(float weight, float top) {
  return top > 0 ? std::sqrt(std::clamp(static_cast<double>(weight) / top, 0.0, 1.0)) : 0.0;
}

double WeightAt(double share, float top) { return share * share * top; }

std::string PercentText(double share) { return absl::StrFormat("%.3g%%", 100.0 * share); }

float LargestWeight(const std::vector<Panel>& panels) {
  float largest = 0.0F;
  for (const Panel& panel : panels) {
    largest = std::max(largest, LargestWeight(GridOf(*panel.layer, panel.head)));
  }
  return largest;
}

int64_t NumCells(const AttentionPicture& picture) {
  int64_t cells = 0;
  for (const SequencePicture& sequence : picture.sequences) {
    for (const LayerPicture& layer : sequence.layers) {
      cells += layer.weights.num_elements();
    }
  }
  return cells;
}

namespace {

constexpr char kLayersOf[] = ", weights of layers ";
constexpr char kHeadsOf[] = ", heads ";

/// Returns `source` with `numbers` instead of those after `words`; unchanged without either.
std::string WithNumbers(const std::string& source, const std::string& words,
                        const std::vector<int64_t>& numbers) {
  const size_t found = source.find(words);
  if (numbers.empty() || found == std::string::npos) {
    return source;
  }
  const size_t begin = found + words.size();
  size_t end = std::min(source.find_first_not_of("0123456789,", begin), source.size());
  end -= source[end - 1] == ',';
  return absl::StrCat(source.substr(0, begin), absl::StrJoin(numbers, ","), source.substr(end));
}

}  // namespace

absl::Status Choose(const std::vector<int64_t>& layers, const std::vector<int64_t>& heads,
                    AttentionPicture& picture) {
  for (SequencePicture& sequence : picture.sequences) {
    std::set<int64_t> numbers;
    for (const LayerPicture& layer : sequence.layers) {
      numbers.insert(layer.number);
    }
    RETURN_IF_ERROR(ExpectAll("--weights-layers", layers, numbers));
    std::erase_if(sequence.layers, [&layers](const LayerPicture& layer) {
      return !layers.empty() &&
             std::find(layers.begin(), layers.end(), layer.number) == layers.end();
    });
    for (LayerPicture& layer : sequence.layers) {
      RETURN_IF_ERROR(ExpectAll(absl::StrCat("--weights-heads of ", layer.name).c_str(), heads,
                                {layer.heads.begin(), layer.heads.end()}));
      if (!heads.empty()) {
        KeepHeads(heads, layer);
      }
    }
  }
  picture.source = WithNumbers(picture.source, kLayersOf, layers);
  picture.source = WithNumbers(picture.source, kHeadsOf, heads);
  return absl::OkStatus();
}

absl::Status CheckPicture(const AttentionPicture& picture) {
  const int64_t cells = NumCells(picture);
  if (cells == 0) {
    return absl::NotFoundError(
        "there are no attention weights to draw: expected sequences with tokens, found none");
  }
  if (cells > kMaxCells) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a picture holds at most ", kMaxCells, " weights, found ", cells,
                     ": choose fewer with --weights-layers or --weights-heads"));
  }
  for (const SequencePicture& sequence : picture.sequences) {
    for (const LayerPicture& layer : sequence.layers) {
      RETURN_IF_ERROR(CheckLayer(layer));
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
