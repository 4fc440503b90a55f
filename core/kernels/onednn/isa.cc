#include "core/kernels/onednn/isa.h"

#ifndef __aarch64__
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace attention {
namespace {

#ifdef __aarch64__

Isa DetectIsa() { return Isa::kNeon; }

bool DetectMatrixUnit() { return false; }

#else

bool Includes(int level, dnnl::cpu_isa wanted) {
  return (level & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

Isa DetectIsa() {
  const int level = static_cast<int>(dnnl::get_effective_cpu_isa());
  if (Includes(level, dnnl::cpu_isa::avx512_core_bf16)) {
    return Isa::kAvx512Bf16;
  }
  if (Includes(level, dnnl::cpu_isa::avx512_core_vnni)) {
    return Isa::kAvx512Vnni;
  }
  if (Includes(level, dnnl::cpu_isa::avx512_core)) {
    return Isa::kAvx512;
  }
  if (Includes(level, dnnl::cpu_isa::avx2_vnni)) {
    return Isa::kAvx2Vnni;
  }
  return Includes(level, dnnl::cpu_isa::avx2) ? Isa::kAvx2 : Isa::kSse41;
}

bool DetectMatrixUnit() {
  return Includes(static_cast<int>(dnnl::get_effective_cpu_isa()), dnnl::cpu_isa::avx10_1_512_amx);
}

#endif

}  // namespace

Isa CurrentIsa() {
  static const Isa isa = DetectIsa();
  return isa;
}

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kNeon:
      return "NEON";
    case Isa::kSse41:
      return "SSE41";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx2Vnni:
      return "AVX2_VNNI";
    case Isa::kAvx512:
      return "AVX512_CORE";
    case Isa::kAvx512Vnni:
      return "AVX512_CORE_VNNI";
    case Isa::kAvx512Bf16:
      return "AVX512_CORE_BF16";
  }
  return "unknown";
}

Dtype ComputeDtype(Dtype dtype) {
  return dtype == Dtype::kBf16 && CurrentIsa() == Isa::kAvx512Bf16 ? Dtype::kBf16 : Dtype::kF32;
}

bool HasMatrixUnit() {
  static const bool has = DetectMatrixUnit();
  return has;
}

bool MultipliesInt8() { return CurrentIsa() >= Isa::kAvx2; }

bool HasVnni() { return CurrentIsa() == Isa::kAvx2Vnni || CurrentIsa() >= Isa::kAvx512Vnni; }

}  // namespace attention
