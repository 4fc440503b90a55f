// Gemm by oneDNN's brgemm ukernel, from AVX2 on.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Generates a kernel. Throws NoKernelMemory or KernelError. Thread-safe. REQUIRES: has_ukernels,
/// and with shape.int8 has_vnni, of CurrentAbilities().
std::unique_ptr<Gemm> MakeUkernelGemm(const GemmShape& shape);

}  // namespace attention
