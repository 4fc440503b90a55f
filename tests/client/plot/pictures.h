// Pictures of attention for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/plot/picture.h"
#include "client/plot/token_text.h"

namespace attention {

/// A layer of these heads' weights, each [rows, keys].
inline LayerPicture MadeLayer(const std::vector<std::vector<double>>& heads, int64_t rows,
                              int64_t keys) {
  LayerPicture layer = {.name = "layer 0",
                        .weights = Tensor(Dtype::kF32, {std::ssize(heads), rows, keys}),
                        .rows = NumberedTokens(rows),
                        .keys = NumberedTokens(keys)};
  float* weights = layer.weights.as<float>();
  for (const std::vector<double>& head : heads) {
    layer.heads.push_back(std::ssize(layer.heads));
    weights = std::copy(head.begin(), head.end(), weights);
  }
  return layer;
}

/// Causal attention of one sequence, each head with other weights.
inline AttentionPicture MadePicture(int64_t layers, int64_t heads, int64_t tokens) {
  AttentionPicture picture = {
      .title = "Attention of test", .source = "made", .hidden_by = "causal"};
  SequencePicture& sequence = picture.sequences.emplace_back();
  sequence.name = "sequence 0";
  for (int64_t l = 0; l < layers; ++l) {
    std::vector<std::vector<double>> weights(heads);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t cell = 0; cell < tokens * tokens; ++cell) {
        const int64_t row = cell / tokens, key = cell % tokens;
        const double slope = static_cast<double>(1 + l + h);
        weights[h].push_back(key > row ? 0.0
                                       : 2.0 * (slope + static_cast<double>(key)) /
                                             (static_cast<double>(row + 1) *
                                              (2 * slope + static_cast<double>(row))));
      }
    }
    LayerPicture& layer = sequence.layers.emplace_back(MadeLayer(weights, tokens, tokens));
    layer.name = absl::StrCat("layer ", l);
    layer.number = l;
    layer.tensor_name = absl::StrCat("layer_weights.", l, ".0");
    for (int64_t cell = 0; cell < tokens * tokens; ++cell) {
      layer.hidden.push_back(cell % tokens > cell / tokens ? 1 : 0);
    }
  }
  return picture;
}

}  // namespace attention
