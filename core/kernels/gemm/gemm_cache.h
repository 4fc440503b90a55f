// The kernels of a process. Internal to core/kernels/gemm.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "absl/hash/hash.h"
#include "core/kernels/onednn/gemm_kernel.h"
#include "core/runtime/mutex.h"

namespace attention {

/// A bounded cache of kernels. When a computation begins and more kernels are held than may be,
/// those that were not used lately are freed, unless another computation runs. When twice as many
/// are held, the computation waits until the others have ended. Each computation holds a lease, so
/// that no kernel is freed while it runs. Thread-safe.
///
/// "Lately" is counted in evictions, since a kernel that is found without a look-up here leaves no
/// trace: after each eviction every kernel is looked up once more before it is used. Of the kernels
/// used since the last eviction, those that were used between the fewest evictions are freed first:
/// many shapes that are used once displace one another, not the kernels that are used all the time.
class GemmCache {
 public:
  /// Returns the cache of the process: generated code depends on nothing but the shape. It is never
  /// destroyed, since workers may outlive main's statics.
  static GemmCache& Get();

  /// Does what FindGemm does.
  const Gemm& Find(const GemmShape& shape);
  /// Begin and end a KernelLease.
  void Enter();
  void Leave();
  GemmCounts counts();
  /// Replaces kMaxGemmKernels, in tests.
  void SetMax(int64_t max_kernels) { max_kernels_ = max_kernels; }
  void SetListener(void (*forget)()) { forget_ = forget; }

 private:
  struct Entry {
    std::unique_ptr<Gemm> gemm;
    int64_t last_round = 0;
    int64_t rounds = 0;  // in which it was used
  };

  bool HoldsMoreThan(int64_t kernels) const { return num_held_ > kernels; }
  /// REQUIRES: no other thread has entered.
  void Evict();

  std::shared_mutex users_;
  std::atomic<int64_t> max_kernels_ = kMaxGemmKernels;
  std::atomic<int64_t> num_held_ = 0;
  std::atomic<void (*)()> forget_ = nullptr;

  Mutex mutex_;
  std::unordered_map<GemmShape, Entry, absl::Hash<GemmShape>> entries_ ABSL_GUARDED_BY(mutex_);
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 1;  // evictions so far, and one
  int64_t num_generated_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_evicted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace attention
