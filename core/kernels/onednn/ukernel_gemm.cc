#include "core/kernels/onednn/ukernel_gemm.h"

#include <oneapi/dnnl/dnnl_ukernel.hpp>
#include <vector>

namespace attention {
namespace {

using DnnlType = dnnl::memory::data_type;

/// Of A, B and C.
struct Types {
  DnnlType a, b, c;
};

Types TypesOf(const GemmShape& shape) {
  if (shape.int8) {
    return {DnnlType::u8, DnnlType::s8, DnnlType::s32};
  }
  const DnnlType operand = shape.dtype == Dtype::kBf16 ? DnnlType::bf16 : DnnlType::f32;
  return {operand, operand, DnnlType::f32};
}

bool HasMatrixUnit() {
  static const bool has = (static_cast<int>(dnnl::get_effective_cpu_isa()) &
                           static_cast<int>(dnnl::cpu_isa::avx10_1_512_amx)) ==
                          static_cast<int>(dnnl::cpu_isa::avx10_1_512_amx);
  return has;
}

class UkernelGemm final : public Gemm {
 public:
  UkernelGemm(const GemmShape& shape, const Types& types)
      : brgemm_(shape.m, shape.n, shape.k, /*batch_size=*/1, shape.lda, shape.ldb, shape.ldc,
                types.a, types.b, types.c) {
    brgemm_.set_add_C(shape.accumulate);
    brgemm_.finalize();
    brgemm_.generate();
    scratchpad_bytes_ = brgemm_.get_scratchpad_size();
  }

  void Run(const void* a, const void* b, void* c) const override {
    static constexpr dnnl_dim_t kNoOffsets[2] = {0, 0};
    if (HasMatrixUnit()) {
      brgemm_.set_hw_context();
    }
    dnnl_brgemm_execute(brgemm_.get(), a, b, kNoOffsets, c, Scratchpad());
  }

 private:
  void* Scratchpad() const {
    if (scratchpad_bytes_ == 0) {
      return nullptr;
    }
    // Thread-local: a kernel is shared by all workers, its scratchpad must not be.
    thread_local std::vector<std::byte> scratchpad;
    if (scratchpad.size() < scratchpad_bytes_ + 64) {
      scratchpad.resize(scratchpad_bytes_ + 64);
    }
    const auto address = reinterpret_cast<uintptr_t>(scratchpad.data());
    return scratchpad.data() + (64 - address % 64);
  }

  dnnl::ukernel::brgemm brgemm_;
  size_t scratchpad_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Gemm> MakeUkernelGemm(const GemmShape& shape) {
  return std::make_unique<UkernelGemm>(shape, TypesOf(shape));
}

}  // namespace attention
