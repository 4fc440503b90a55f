#include "core/kernels/onednn/matmul_gemm.h"

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "core/kernels/onednn/kernel_error.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace attention {
namespace {

// The primitive chooses its blocking from all of its extents. With M and K fixed, a row's bits
// depend on neither the number of rows nor the total K.
constexpr int64_t kRows = 64;
constexpr int64_t kDepth = 64;

/// The primitive of one [kRows, depth] x [depth, n] product.
class MatmulBlock {
 public:
  MatmulBlock(const dnnl::engine& engine, const GemmShape& shape, int64_t depth) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    a_ = memory::desc({kRows, depth}, f32, memory::dims{kDepth, 1});
    b_ = memory::desc({depth, shape.n}, f32, memory::dims{shape.ldb, 1});
    c_ = memory::desc({kRows, shape.n}, f32, memory::dims{shape.n, 1});
    matmul_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine, a_, b_, c_));
  }

  void Run(const dnnl::engine& engine, dnnl::stream& stream, float* a, const float* b,
           float* c) const {
    using dnnl::memory;
    memory am(a_, engine, a);
    memory bm(b_, engine, const_cast<float*>(b));
    memory cm(c_, engine, c);
    matmul_.execute(stream, {{DNNL_ARG_SRC, am}, {DNNL_ARG_WEIGHTS, bm}, {DNNL_ARG_DST, cm}});
    stream.wait();
  }

 private:
  dnnl::memory::desc a_, b_, c_;
  dnnl::matmul matmul_;
};

class MatmulGemm final : public Gemm {
 public:
  explicit MatmulGemm(const GemmShape& shape)
      : shape_(shape), engine_(dnnl::engine::kind::cpu, 0), full_(engine_, shape, kDepth) {
    if (const int64_t tail = shape.k % kDepth; tail != 0) {
      tail_.emplace(engine_, shape, tail);
    }
  }

  void Run(const void* a, const void* b, void* c) const override {
    WithoutDnnlErrors("run", shape_, [&] { Multiply(a, b, c); });
  }

 private:
  void Multiply(const void* a, const void* b, void* c) const {
#ifdef _OPENMP
    omp_set_num_threads(1);  // our workers are the threads
#endif
    dnnl::stream stream(engine_);
    std::vector<float> padded_a(kRows * kDepth);
    std::vector<float> product(kRows * shape_.n);
    std::vector<float> sum(shape_.m * shape_.n);
    for (int64_t first = 0; first < shape_.k; first += kDepth) {
      const int64_t depth = std::min(kDepth, shape_.k - first);
      for (int64_t row = 0; row < shape_.m; ++row) {
        std::memcpy(&padded_a[row * kDepth],
                    static_cast<const float*>(a) + row * shape_.lda + first, depth * sizeof(float));
      }
      const MatmulBlock& block = depth == kDepth ? full_ : *tail_;
      block.Run(engine_, stream, padded_a.data(), static_cast<const float*>(b) + first * shape_.ldb,
                product.data());
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += product[i];
      }
    }
    Store(sum, static_cast<float*>(c));
  }

  void Store(const std::vector<float>& sum, float* c) const {
    for (int64_t row = 0; row < shape_.m; ++row) {
      for (int64_t col = 0; col < shape_.n; ++col) {
        float& target = c[row * shape_.ldc + col];
        target = shape_.accumulate ? target + sum[row * shape_.n + col] : sum[row * shape_.n + col];
      }
    }
  }

  GemmShape shape_;
  dnnl::engine engine_;
  MatmulBlock full_;
  std::optional<MatmulBlock> tail_;
};

}  // namespace

std::unique_ptr<Gemm> MakeMatmulGemm(const GemmShape& shape) {
  return WithoutDnnlErrors("generate", shape, [&] { return std::make_unique<MatmulGemm>(shape); });
}

}  // namespace attention
