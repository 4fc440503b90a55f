#include "core/kernels/gemm/few_row_gemm.h"

#include <algorithm>

#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

class FewRowGemm final : public Gemm {
 public:
  explicit FewRowGemm(const GemmShape& shape) : shape_(shape) {}

  void Run(const void* a, const void* b, void* c) const override {
    const TileKernels& kernels = CurrentTileKernels();
    for (int64_t row = 0; row < shape_.m; row += kFewRows) {
      kernels.few_row_product({.operands = FewRowProduct::kInt8,
                               .a = static_cast<const uint8_t*>(a) + row * shape_.lda,
                               .a_stride = shape_.lda,
                               .rows = std::min(kFewRows, shape_.m - row),
                               .b = b,
                               .b_stride = shape_.ldb * 4,
                               .steps = shape_.k / 4,
                               .cols = shape_.n,
                               .c = static_cast<int32_t*>(c) + row * shape_.ldc,
                               .c_stride = shape_.ldc * 4,
                               .accumulate = shape_.accumulate});
    }
  }

 private:
  const GemmShape shape_;
};

}  // namespace

std::unique_ptr<Gemm> MakeFewRowGemm(const GemmShape& shape) {
  return std::make_unique<FewRowGemm>(shape);
}

}  // namespace attention
