#include "core/kernels/onednn/isa.h"

#ifndef __aarch64__
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#endif

namespace attention {
namespace {

#ifdef __aarch64__

Abilities Detect() { return {.isa = Isa::kNeon}; }

#else

bool Includes(int level, dnnl::cpu_isa wanted) {
  return (level & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

Isa IsaOf(int level) {
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

Processor DetectProcessor() {
  return {.is_intel = __builtin_cpu_is("intel") != 0,
          .is_zen3_or_4 = __builtin_cpu_is("amdfam19h") != 0,
          .has_avx512 = __builtin_cpu_supports("avx512f") != 0};
}

/// Returns whether bf16 is multiplied faster as f32 than by vector instructions for bf16. Intel's
/// processors with a matrix unit have slow ones: 86 GFLOP/s, and f32 170 (tests/bench/RESULTS.md).
/// Virtual machines may hide the matrix unit. Cooper Lake, the only earlier Intel with AVX512_BF16,
/// has never been measured.
bool HasSlowBf16Vectors(const Processor& processor) {
  const char* wanted = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool is_wanted = wanted != nullptr && std::string_view(wanted) == "AVX512_CORE_BF16";
  return !is_wanted && processor.is_intel && !__builtin_cpu_is("cooperlake");
}

Abilities Detect() {
  const int level = static_cast<int>(dnnl::get_effective_cpu_isa());
  Abilities abilities{.isa = IsaOf(level), .processor = DetectProcessor()};
  if (abilities.isa >= Isa::kAvx512) {
    abilities.vector_bits = 512;
  } else if (abilities.isa >= Isa::kAvx2) {
    abilities.vector_bits = 256;
  }
  abilities.has_ukernels = abilities.isa >= Isa::kAvx2;
  abilities.has_vnni = abilities.isa == Isa::kAvx2Vnni || abilities.isa >= Isa::kAvx512Vnni;
  if (Includes(level, dnnl::cpu_isa::avx10_1_512_amx)) {
    abilities.bf16 = abilities.int8 = Products::kMatrixUnit;
    return abilities;
  }
  const bool has_bf16 =
      abilities.isa == Isa::kAvx512Bf16 && !HasSlowBf16Vectors(abilities.processor);
  abilities.bf16 = has_bf16 ? Products::kVectors : Products::kEmulated;
  abilities.int8 = Products::kVectors;
  return abilities;
}

#endif

}  // namespace

const Abilities& CurrentAbilities() {
  static const Abilities abilities = Detect();
  return abilities;
}

Isa CurrentIsa() { return CurrentAbilities().isa; }

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

std::string_view Name(Products products) {
  switch (products) {
    case Products::kEmulated:
      return "emulated";
    case Products::kVectors:
      return "vectors";
    case Products::kMatrixUnit:
      return "matrix unit";
  }
  return "unknown";
}

Dtype ComputeDtype(Dtype dtype) {
  return dtype == Dtype::kBf16 && CurrentAbilities().bf16 != Products::kEmulated ? Dtype::kBf16
                                                                                 : Dtype::kF32;
}

bool HasMatrixUnit() { return CurrentAbilities().bf16 == Products::kMatrixUnit; }

bool MultipliesInt8() { return CurrentAbilities().int8 != Products::kEmulated; }

}  // namespace attention
