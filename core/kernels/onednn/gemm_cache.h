// The kernels of a process. Internal to core/kernels/onednn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/kernels/onednn/gemm.h"
#include "core/runtime/mutex.h"

namespace attention {

/// Bounded: when a computation begins and more kernels are held than may be, those that were not
/// used lately are freed, if nobody computes; from twice as many on, after waiting for those who
/// do. Who computes holds a lease, so that no kernel goes while it runs.
///
/// "Lately" is counted in evictions, since a kernel that is found without a look-up here leaves no
/// trace: each eviction makes everybody look up again what is used after it. Of kernels used since
/// the last one, those go first that were used between the fewest evictions, so that a flood of
/// shapes that are used once displaces itself and not what is used all the time.
class GemmCache {
 public:
  /// Process-wide, as generated code depends on nothing but the shape. Never destroyed, since
  /// workers may outlive main's statics.
  static GemmCache& Get();

  const Gemm& Find(const GemmShape& shape);
  void Enter();
  void Leave();
  GemmCounts counts();
  void SetMax(int64_t max_kernels) { max_kernels_ = max_kernels; }
  void SetListener(void (*forget)()) { forget_ = forget; }

 private:
  struct Entry {
    std::unique_ptr<Gemm> gemm;
    int64_t last_round = 0;
    int64_t rounds = 0;  // in which it was used
  };

  bool HoldsMoreThan(int64_t kernels) const { return num_held_ > kernels; }
  /// REQUIRES: nobody else has entered.
  void Evict();

  std::shared_mutex users_;
  std::atomic<int64_t> max_kernels_ = kMaxGemmKernels;
  std::atomic<int64_t> num_held_ = 0;
  std::atomic<void (*)()> forget_ = nullptr;

  Mutex mutex_;
  absl::flat_hash_map<GemmShape, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 1;  // evictions so far, and one
  int64_t num_generated_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_evicted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace attention
