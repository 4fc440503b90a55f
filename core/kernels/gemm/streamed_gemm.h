// Products of 8-bit integers where oneDNN's ukernels saturate. Internal to core/kernels/gemm.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Makes a kernel. REQUIRES: shape.int8, k is a multiple of 4, MultipliesInt8().
std::unique_ptr<Gemm> MakeStreamedGemm(const GemmShape& shape);

}  // namespace attention
