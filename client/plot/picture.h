// Pictures of attention: what is drawn, whatever draws it.
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
  std::vector<int64_t> heads;  // their numbers in the layer, [H]
  Tensor weights;              // FP32 [H, rows, keys], each in 0..1
  /// [1 or H, rows, keys], 1 where a row may not see a key; empty: all rows see all keys.
  std::vector<uint8_t> hidden = {};
  /// How they are shown: one for each row and key, as ShownToken makes them.
  std::vector<std::string> rows = {};
  std::vector<std::string> keys = {};
  /// What the weights are called in a file that `attend run` writes.
  std::string tensor_name = {};
};

struct SequencePicture {
  std::string name;  // "sequence 0"
  std::vector<LayerPicture> layers;
};

struct AttentionPicture {
  std::string title;      // "Attention of gpt2"
  std::string source;     // what was asked of whom, or the file
  std::string hidden_by;  // "causal, window 4"; empty when nothing is hidden
  std::vector<SequencePicture> sequences;
};

/// Of one head, or the mean over a layer's heads.
struct WeightGrid {
  int64_t rows = 0;
  int64_t keys = 0;
  std::vector<float> weights;   // [rows, keys]
  std::vector<uint8_t> hidden;  // [rows, keys]; of a mean: hidden from all heads
  /// Cells of the layer that one cell stands for, each way.
  int64_t rows_each = 1;
  int64_t keys_each = 1;
};

/// `head` is an index into `layer.heads`; none: the mean of all.
WeightGrid GridOf(const LayerPicture& layer, std::optional<int64_t> head);

/// The same with at most `max_rows` and `max_keys` cells each way: the largest weight of the cells
/// that fall together, hidden when all of them are. REQUIRES: both at least 1.
WeightGrid Pooled(const WeightGrid& grid, int64_t max_rows, int64_t max_keys);

/// Largest weight; 0 of a grid without cells.
float LargestWeight(const WeightGrid& grid);

/// "head 5", or "mean of 12 heads".
std::string HeadName(const LayerPicture& layer, std::optional<int64_t> head);

/// One map of a picture.
struct Panel {
  const LayerPicture* layer = nullptr;  // never null
  std::optional<int64_t> head;          // an index into layer->heads; none: their mean
};

/// Layer by layer: each head, or with `mean` the mean of each layer's. Borrows `sequence`.
std::vector<Panel> PanelsOf(const SequencePicture& sequence, bool mean);

/// The place of a weight on a scale of colours that ends at `top`, 0..1: its square root, so that
/// small weights differ too where one row gives all to one key, as each first row of causal
/// attention does.
double ScaledShare(float weight, float top);
/// The weight at a place of that scale.
double WeightAt(double share, float top);

/// "12.5%": to three digits.
std::string PercentText(double share);

/// The largest weight of all: where a scale of colours that they share ends.
float LargestWeight(const std::vector<Panel>& panels);

/// Cells of all heads, layers and sequences.
int64_t NumCells(const AttentionPicture& picture);

/// Leaves only these layers, and of them only these heads, by their numbers; an empty list leaves
/// all. INVALID_ARGUMENT names a number that there is none of.
absl::Status Choose(const std::vector<int64_t>& layers, const std::vector<int64_t>& heads,
                    AttentionPicture& picture);

/// More than this is too much for one page or picture.
inline constexpr int64_t kMaxCells = int64_t{16} << 20;
/// And so many rows, or keys.
inline constexpr int64_t kMaxTokens = 8192;

/// INVALID_ARGUMENT when weights are no share of 1 (which names layer, head, row, key and value),
/// or do not fit the names of their rows and keys; RESOURCE_EXHAUSTED above kMaxTokens, or above
/// kMaxCells, which says what to leave out.
absl::Status CheckPicture(const AttentionPicture& picture);

}  // namespace attention
