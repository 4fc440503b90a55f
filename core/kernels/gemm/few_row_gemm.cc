#include "core/kernels/gemm/few_row_gemm.h"

#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

class FewRowGemm final : public Gemm {
 public:
  explicit FewRowGemm(const GemmShape& shape) : shape_(shape) {}

  void Run(const void* a, const void* b, void* c) const override {
    const auto element_bytes = shape_.int8 ? 1 : static_cast<int64_t>(SizeOf(shape_.dtype));
    MultiplyByFewRows(CurrentTileKernels(), {.processor = processor_,
                                             .operands = Operands(),
                                             .a = a,
                                             .a_stride = shape_.lda * element_bytes,
                                             .rows = shape_.m,
                                             .b = b,
                                             .b_stride = shape_.ldb * 4,
                                             .steps = shape_.k / RowsTogether(),
                                             .cols = shape_.n,
                                             .c = c,
                                             .c_stride = shape_.ldc * 4,
                                             .accumulate = shape_.accumulate});
  }

 private:
  FewRowProduct::Operands Operands() const {
    if (shape_.int8) {
      return FewRowProduct::kInt8;
    }
    if (shape_.dtype == Dtype::kBf16) {
      return FewRowProduct::kBf16;
    }
    return shape_.bf16_b ? FewRowProduct::kF32Bf16 : FewRowProduct::kF32;
  }

  /// Returns the number of rows of B that share 32 bits.
  int64_t RowsTogether() const {
    if (shape_.int8) {
      return 4;
    }
    return shape_.bf16_b || shape_.dtype == Dtype::kBf16 ? 2 : 1;
  }

  const GemmShape shape_;
  const Processor& processor_ = CurrentAbilities().processor;
};

}  // namespace

std::unique_ptr<Gemm> MakeFewRowGemm(const GemmShape& shape) {
  return std::make_unique<FewRowGemm>(shape);
}

}  // namespace attention
