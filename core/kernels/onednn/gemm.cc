#include "core/kernels/onednn/gemm.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/matmul_gemm.h"
#include "core/kernels/onednn/ukernel_gemm.h"
#include "core/runtime/mutex.h"

namespace attention {
namespace {

class GemmCache {
 public:
  const Gemm& Find(const GemmShape& shape) {
    MutexLock lock(mutex_);
    std::unique_ptr<Gemm>& gemm = gemms_[shape];
    if (gemm == nullptr) {
      gemm = CurrentIsa() == Isa::kSse41 ? MakeMatmulGemm(shape) : MakeUkernelGemm(shape);
    }
    return *gemm;
  }

  int64_t size() {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(gemms_.size());
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<GemmShape, std::unique_ptr<Gemm>> gemms_ ABSL_GUARDED_BY(mutex_);
};

/// Process-wide because generated code is: it depends on nothing but the shape. Never destroyed,
/// since workers may outlive main's statics.
GemmCache& Cache() {
  static GemmCache& cache = *std::make_unique<GemmCache>().release();
  return cache;
}

}  // namespace

const Gemm& FindGemm(GemmShape shape) { return Cache().Find(shape); }

int64_t NumGemmKernels() { return Cache().size(); }

}  // namespace attention
