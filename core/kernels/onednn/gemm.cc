#include "core/kernels/onednn/gemm.h"

#include "core/kernels/onednn/gemm_cache.h"

namespace attention {

const Gemm& FindGemm(GemmShape shape) { return GemmCache::Get().Find(shape); }

KernelLease::KernelLease() { GemmCache::Get().Enter(); }
KernelLease::~KernelLease() { GemmCache::Get().Leave(); }

GemmCounts CountGemmKernels() { return GemmCache::Get().counts(); }

void SetMaxGemmKernels(int64_t max_kernels) { GemmCache::Get().SetMax(max_kernels); }

void OnGemmEviction(void (*forget)()) { GemmCache::Get().SetListener(forget); }

}  // namespace attention
