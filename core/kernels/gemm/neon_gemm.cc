#include "core/kernels/gemm/neon_gemm.h"

#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// The number of rows whose sums stay in registers: 4 of the 32 registers hold a row of B, 16 the
/// sums.
constexpr int64_t kMostRows = 4;

/// The operands of one step: some rows of A, 16 columns of B and of C.
struct Block {
  const float* a;
  const float* b;
  float* c;
};

template <int64_t kRows>
void Multiply(const GemmShape& shape, const Block& block) {
  Vec sums[kRows] = {};
  for (int64_t i = 0; i < shape.k; ++i) {
    const Vec row_of_b = Load(block.b + i * shape.ldb);
    for (int64_t r = 0; r < kRows; ++r) {
      sums[r] = MulAdd(Set(block.a[r * shape.lda + i]), row_of_b, sums[r]);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    float* c = block.c + r * shape.ldc;
    Store(shape.accumulate ? Load(c) + sums[r] : sums[r], c);
  }
}

class NeonGemm final : public Gemm {
 public:
  explicit NeonGemm(const GemmShape& shape) : shape_(shape) {}

  // 16 columns of B stay in the L1 cache while all rows are multiplied.
  void Run(const void* a, const void* b, void* c) const override {
    for (int64_t col = 0; col < shape_.n; col += 16) {
      for (int64_t row = 0; row < shape_.m; row += kMostRows) {
        MultiplyRows(shape_.m - row, {.a = static_cast<const float*>(a) + row * shape_.lda,
                                      .b = static_cast<const float*>(b) + col,
                                      .c = static_cast<float*>(c) + row * shape_.ldc + col});
      }
    }
  }

 private:
  /// Multiplies the first `rows` rows, at most kMostRows.
  void MultiplyRows(int64_t rows, const Block& block) const {
    switch (rows) {
      case 1:
        return Multiply<1>(shape_, block);
      case 2:
        return Multiply<2>(shape_, block);
      case 3:
        return Multiply<3>(shape_, block);
      default:
        return Multiply<kMostRows>(shape_, block);
    }
  }

  const GemmShape shape_;
};

}  // namespace

std::unique_ptr<Gemm> MakeNeonGemm(const GemmShape& shape) {
  return std::make_unique<NeonGemm>(shape);
}

}  // namespace attention
