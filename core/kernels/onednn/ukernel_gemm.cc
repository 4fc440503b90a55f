#include "core/kernels/onednn/ukernel_gemm.h"

#include <oneapi/dnnl/dnnl_ukernel.h>

#include <memory>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/kernel_error.h"
#include "core/kernels/onednn/matrix_unit_config.h"

namespace attention {
namespace {

/// The element types of A, B and C.
struct Types {
  dnnl_data_type_t a, b, c;
};

Types TypesOf(const GemmShape& shape) {
  if (shape.int8) {
    return {dnnl_u8, dnnl_s8, dnnl_s32};
  }
  const dnnl_data_type_t operand = shape.dtype == Dtype::kBf16 ? dnnl_bf16 : dnnl_f32;
  return {operand, operand, dnnl_f32};
}

struct DestroyBrgemm {
  void operator()(dnnl_brgemm_t brgemm) const { dnnl_brgemm_destroy(brgemm); }
};

// This uses oneDNN's C interface: the C++ one destroys a kernel whose generation failed, which
// crashes.
class UkernelGemm final : public Gemm {
 public:
  explicit UkernelGemm(const GemmShape& shape) : shape_(shape) {
    const Types types = TypesOf(shape);
    dnnl_brgemm_t made = nullptr;
    Check("create", dnnl_brgemm_create(&made, shape.m, shape.n, shape.k, /*batch_size=*/1,
                                       shape.lda, shape.ldb, shape.ldc, types.a, types.b, types.c));
    std::unique_ptr<dnnl_brgemm, DestroyBrgemm> brgemm(made);
    Check("prepare", dnnl_brgemm_set_add_C(made, shape.accumulate ? 1 : 0));
    Check("prepare", dnnl_brgemm_finalize(made));
    // oneDNN 3.7 crashes when it destroys a kernel whose generation failed. No object owns the
    // kernel while it is generated, so a failure leaks its description, a few hundred bytes.
    dnnl_brgemm_t const unowned = brgemm.release();
    Check("generate", dnnl_brgemm_generate(unowned));
    brgemm_.reset(unowned);
    Check("prepare", dnnl_brgemm_get_scratchpad_size(made, &scratchpad_bytes_));
    if (HasMatrixUnit()) {
      ReleaseMatrixUnit();
      Check("prepare", dnnl_brgemm_set_hw_context(made));
      config_ = ReadMatrixUnitConfig();
      dnnl_brgemm_release_hw_context();
      needs_matrix_unit_ = config_ != MatrixUnitConfig{};
    }
  }

  void Run(const void* a, const void* b, void* c) const override {
    static constexpr dnnl_dim_t kNoOffsets[2] = {0, 0};
    if (needs_matrix_unit_) {
      ConfigureMatrixUnit(config_);
    }
    Check("run", dnnl_brgemm_execute(brgemm_.get(), a, b, kNoOffsets, c, Scratchpad()));
  }

 private:
  void Check(const char* what, dnnl_status_t status) const {
    if (status != dnnl_success) {
      ThrowKernelError(status, what, shape_);
    }
  }

  void* Scratchpad() const {
    if (scratchpad_bytes_ == 0) {
      return nullptr;
    }
    // All workers share a kernel, but each needs a scratchpad of its own.
    thread_local std::vector<std::byte> scratchpad;
    if (scratchpad.size() < scratchpad_bytes_ + 64) {
      scratchpad.resize(scratchpad_bytes_ + 64);
    }
    const auto address = reinterpret_cast<uintptr_t>(scratchpad.data());
    return scratchpad.data() + (64 - address % 64);
  }

  const GemmShape shape_;
  std::unique_ptr<dnnl_brgemm, DestroyBrgemm> brgemm_;
  size_t scratchpad_bytes_ = 0;
  bool needs_matrix_unit_ = false;
  MatrixUnitConfig config_ = {};
};

}  // namespace

std::unique_ptr<Gemm> MakeUkernelGemm(const GemmShape& shape) {
  return std::make_unique<UkernelGemm>(shape);
}

}  // namespace attention
