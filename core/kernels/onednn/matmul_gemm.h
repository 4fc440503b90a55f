// Gemm on oneDNN's matmul primitive: for CPUs that the ukernel does not serve.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm.h"

namespace attention {

/// f32 only.
std::unique_ptr<Gemm> MakeMatmulGemm(const GemmShape& shape);

}  // namespace attention
