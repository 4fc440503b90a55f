// Makes the function table of the instruction set for which the including file is compiled.
#pragma once

#include "core/kernels/tile/few_row_product.h"
#include "core/kernels/tile/finish.h"
#include "core/kernels/tile/logits.h"
#include "core/kernels/tile/norm.h"
#include "core/kernels/tile/pack.h"
#include "core/kernels/tile/rows.h"
#include "core/kernels/tile/softmax.h"
#include "core/kernels/tile/tables.h"

namespace attention {
namespace {

constexpr TileKernels MakeTable() {
  return {.softmax = Softmax,
          .logits = Logits,
          .distances = Distances,
          .weights = Weights,
          .store = StoreRows,
          .finish = Finish,
          .norm = Norm,
          .few_row_product = kMultiplyFewRows,
          .pack_transposed = PackTransposed,
          .pack_rows = PackRows,
          .copy_rows = CopyRows,
          .prepare_rows = PrepareRows,
          .expand = Expand,
          .quantise_rows = QuantiseRows,
          .dequantise_scores = DequantiseScores,
          .quantise_probabilities = QuantiseProbabilities,
          .add_scaled = AddScaled};
}

}  // namespace
}  // namespace attention
