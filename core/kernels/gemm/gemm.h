// Small matrix products, whose kernels are generated once for each shape.
#pragma once

#include <cstdint>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// The kernel of `shape`, generated when it is not held (20 to 60 us). It may be freed when no
/// KernelLease lives. Throws NoKernelMemory, KernelError or std::bad_alloc. Thread-safe.
const Gemm& FindGemm(GemmShape shape);

/// While one lives, no kernel is freed. Each computation has one, on the thread that calls it; its
/// other threads need none. When too many kernels are held, those that were not used lately are
/// freed before a computation begins.
class KernelLease {
 public:
  KernelLease();
  ~KernelLease();
  KernelLease(const KernelLease&) = delete;
  KernelLease& operator=(const KernelLease&) = delete;
};

/// Around the products of one task on one thread. A kernel configures the matrix unit of the thread
/// that runs it, where there is one, and leaves it so for its next run; here it is released, since
/// the system would save 8 KB of registers whenever the thread is interrupted.
class KernelRun {
 public:
  KernelRun() = default;
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;
};

GemmCounts CountGemmKernels();

/// In place of kMaxGemmKernels, for tests.
void SetMaxGemmKernels(int64_t max_kernels);

/// `forget` drops pointers to kernels that are kept beyond a lease; it is called before any are
/// freed, while no lease lives. There is one.
void OnGemmEviction(void (*forget)());

}  // namespace attention
