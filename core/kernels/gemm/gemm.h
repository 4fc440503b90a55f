// Small matrix products. A kernel is generated for each shape when it is first needed.
#pragma once

#include <cstdint>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Returns the kernel for `shape`. If it is not in memory, it is generated, which takes 20 to 60
/// us. It stays valid as long as a KernelLease lives. Throws NoKernelMemory, KernelError or
/// std::bad_alloc. Thread-safe.
const Gemm& FindGemm(GemmShape shape);

/// Returns the number of columns that f32 products take at a time, up to 64: 32 where oneDNN's
/// registers have 256 bits. A wider B would be read one half of each row after the other, so it is
/// divided into *panels* of so many columns.
int64_t PanelColumns();

/// While a lease lives, no kernel is freed. Each computation holds one on the thread that calls it;
/// its other threads need none. When more kernels are in memory than may be, those that were not
/// used lately are freed before the next computation begins.
class KernelLease {
 public:
  KernelLease();
  ~KernelLease();
  KernelLease(const KernelLease&) = delete;
  KernelLease& operator=(const KernelLease&) = delete;
};

/// The products of one task on one thread. On a processor with a matrix unit, a kernel configures
/// the unit of its thread and leaves it configured for its next run. The destructor releases it:
/// otherwise the system would save 8 KB of registers at each interruption of the idle thread.
class KernelRun {
 public:
  KernelRun() = default;
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;
};

/// Returns the counts of this process. Thread-safe.
GemmCounts CountGemmKernels();

/// Sets the function that is called before kernels are freed, while no lease lives. It must drop
/// all pointers to kernels that outlive a lease. A later call replaces it.
void OnGemmEviction(void (*forget)());

}  // namespace attention
