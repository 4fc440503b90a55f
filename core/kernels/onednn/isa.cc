#include "core/kernels/onednn/isa.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace attention {
namespace {

bool Includes(int level, dnnl::cpu_isa wanted) {
  return (level & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

Isa DetectIsa() {
  const int level = static_cast<int>(dnnl::get_effective_cpu_isa());
  if (Includes(level, dnnl::cpu_isa::avx512_core_bf16)) {
    return Isa::kAvx512Bf16;
  }
  if (Includes(level, dnnl::cpu_isa::avx512_core)) {
    return Isa::kAvx512;
  }
  return Includes(level, dnnl::cpu_isa::avx2) ? Isa::kAvx2 : Isa::kSse41;
}

}  // namespace

Isa CurrentIsa() {
  static const Isa isa = DetectIsa();
  return isa;
}

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kSse41:
      return "SSE41";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX512_CORE";
    case Isa::kAvx512Bf16:
      return "AVX512_CORE_BF16";
  }
  return "unknown";
}

Dtype ComputeDtype(Dtype dtype) {
  return dtype == Dtype::kBf16 && CurrentIsa() == Isa::kAvx512Bf16 ? Dtype::kBf16 : Dtype::kF32;
}

bool HasMatrixUnit() {
  static const bool has =
      Includes(static_cast<int>(dnnl::get_effective_cpu_isa()), dnnl::cpu_isa::avx10_1_512_amx);
  return has;
}

bool MultipliesInt8() { return CurrentIsa() == Isa::kAvx512Bf16; }

}  // namespace attention
