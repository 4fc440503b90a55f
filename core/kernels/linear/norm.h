// Layer norm and root-mean-square norm of hidden states.
#pragma once

#include <optional>
#include <vector>

#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// A norm over rows of weight.size() elements.
struct Norm {
  /// Root-mean-square norm, without mean and bias (Zhang & Sennrich 2019); otherwise layer norm (Ba
  /// et al. 2016).
  bool is_rms = false;
  float epsilon = 1e-5f;
  std::vector<float> weight;
  std::vector<float> bias = {};  // empty: none

  /// Computes target = norm(source) [+ residual]. `source` and `residual` are f32 and may be the
  /// memory of the target.
  void Run(const MatrixView& source, const MutableMatrixView& target, ThreadPool& pool,
           const std::optional<MatrixView>& residual = std::nullopt) const;
};

}  // namespace attention
