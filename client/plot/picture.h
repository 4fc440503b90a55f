// The content of pictures of attention, whatever their format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Attention of one layer in one sequence.
struct LayerPicture {
  std::string name;            // "layer 3"
  int64_t number = 0;          // 3
  std::vector<int64_t> heads;  // numbers of the heads in the layer, [H]
  Tensor weights;              // FP32 [H, rows, keys], each in 0..1
  /// The mask [1 or H, rows, keys], 1 where a key is hidden from a row; empty if no key is hidden.
  std::vector<uint8_t> hidden = {};
  /// The labels of rows and keys, as ShownToken makes them.
  std::vector<std::string> rows = {};
  std::vector<std::string> keys = {};
  /// The name of the weights in a file that `attend run` writes.
  std::string tensor_name = {};
};

struct SequencePicture {
  std::string name;  // "sequence 0"
  std::vector<LayerPicture> layers;
};

struct AttentionPicture {
  std::string title;      // "Attention of gpt2"
  std::string source;     // a description of the request
  std::string hidden_by;  // "causal, window 4"; empty when nothing is hidden
  std::vector<SequencePicture> sequences;
};

/// The weights of one head, or the mean over the heads of a layer.
struct WeightGrid {
  int64_t rows = 0;
  int64_t keys = 0;
  std::vector<float> weights;   // [rows, keys]
  std::vector<uint8_t> hidden;  // [rows, keys], 1 where all heads of the grid hide a cell
  /// How many rows and keys of the layer a cell combines.
  int64_t rows_each = 1;
  int64_t keys_each = 1;
};

/// Returns the grid of `head`, an index into `layer.heads`; if absent, the mean of all heads.
WeightGrid GridOf(const LayerPicture& layer, std::optional<int64_t> head);

/// Returns `grid` reduced to at most `max_rows` and `max_keys`. Each cell has the largest weight of
/// the cells that it combines, and is hidden if all of them are. REQUIRES: both at least 1.
WeightGrid Pooled(const WeightGrid& grid, int64_t max_rows, int64_t max_keys);

/// Returns the largest weight; 0 for a grid without cells.
float LargestWeight(const WeightGrid& grid);

/// Returns the name of a head: "head 5", or "mean of 12 heads".
std::string HeadName(const LayerPicture& layer, std::optional<int64_t> head);

/// One map of a picture.
struct Panel {
  const LayerPicture* layer = nullptr;  // never null
  std::optional<int64_t> head;          // an index into layer->heads; absent: their mean
};

/// Returns the maps of `sequence`, layer by layer: one for each head, or with `mean` one for the
/// mean of each layer's heads. Borrows `sequence`.
std::vector<Panel> PanelsOf(const SequencePicture& sequence, bool mean);

/// Returns the place of a weight, 0..1, on a scale of colours that ends at `top`. The scale is a
/// square root, so that small weights are told apart even if one row gives all its weight to one
/// key, as the first row of causal attention does.
double ScaledShare(float weight, float top);
/// Returns the weight at the place `share` of that scale.
double WeightAt(double share, float top);

/// Returns `share` in percent, with three digits: "12.5%".
std::string PercentText(double share);

/// Returns the largest weight of all panels, where their common scale of colours ends.
float LargestWeight(const std::vector<Panel>& panels);

/// Returns the number of weights of all heads, layers and sequences.
int64_t NumCells(const AttentionPicture& picture);

/// Keeps only these layers, and of them only these heads, by number; an empty list keeps all.
/// INVALID_ARGUMENT names a number that does not exist.
absl::Status Choose(const std::vector<int64_t>& layers, const std::vector<int64_t>& heads,
                    AttentionPicture& picture);

/// The maximum number of weights in a page or picture.
inline constexpr int64_t kMaxCells = int64_t{16} << 20;
/// The maximum number of rows, and of keys.
inline constexpr int64_t kMaxPictureTokens = 8192;

/// Checks a picture. INVALID_ARGUMENT for a weight outside 0..1 (the text names layer, head, row,
/// key and value), or if weights do not fit the labels of their rows and keys. RESOURCE_EXHAUSTED
/// above kMaxPictureTokens or kMaxCells.
absl::Status CheckPicture(const AttentionPicture& picture);

}  // namespace attention
