// Products of 8-bit integers where oneDNN's ukernels saturate. Internal to core/kernels/onednn.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm.h"

namespace attention {

/// REQUIRES: shape.int8, k a multiple of 4, MultipliesInt8().
std::unique_ptr<Gemm> MakeStreamedGemm(const GemmShape& shape);

}  // namespace attention
