#include "core/kernels/gemm/gemm.h"

#include "core/kernels/gemm/gemm_cache.h"
#include "core/kernels/onednn/isa.h"
#ifndef __aarch64__
#include "core/kernels/onednn/matrix_unit_config.h"
#endif

namespace attention {

const Gemm& FindGemm(GemmShape shape) { return GemmCache::Get().Find(shape); }

int64_t PanelColumns() {
  const Abilities& abilities = CurrentAbilities();
  return abilities.has_ukernels && abilities.vector_bits == 256 ? 32 : 64;
}

KernelLease::KernelLease() { GemmCache::Get().Enter(); }
KernelLease::~KernelLease() { GemmCache::Get().Leave(); }

KernelRun::~KernelRun() {
#ifndef __aarch64__
  ReleaseMatrixUnit();
#endif
}

GemmCounts CountGemmKernels() { return GemmCache::Get().counts(); }

void OnGemmEviction(void (*forget)()) { GemmCache::Get().SetListener(forget); }

}  // namespace attention
