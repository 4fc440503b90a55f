// What the processor can do for this process: the one place that decides it.
#pragma once

#include <string_view>

#include "core/tensor/dtype.h"

namespace attention {

/// Levels that our own code is compiled for. ARM64 has one; of x86-64's, each includes the ones
/// before it, but for kAvx512, which has no VNNI.
enum class Isa { kNeon, kSse41, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAvx512Bf16 };

/// How products of one type of operands are computed.
enum class Products {
  kEmulated,    // as f32
  kVectors,     // by vector instructions for the type
  kMatrixUnit,  // by AMX, whose bits are its own
};

/// "emulated", "vectors" or "matrix unit".
std::string_view Name(Products products);

struct Abilities {
  Isa isa = Isa::kSse41;
  int vector_bits = 128;
  Products bf16 = Products::kEmulated;
  Products int8 = Products::kEmulated;
};

/// The one decision for our code and oneDNN's alike: what the CPU has, capped by the environment
/// variable ONEDNN_MAX_CPU_ISA (SSE41, AVX2, AVX2_VNNI, AVX512_CORE, AVX512_CORE_VNNI,
/// AVX512_CORE_BF16, AVX512_CORE_AMX, ...) as it stood at the first call. ARM64 has no choice.
const Abilities& CurrentAbilities();

/// CurrentAbilities().isa.
Isa CurrentIsa();

/// "NEON", or as ONEDNN_MAX_CPU_ISA names it: "SSE41", "AVX2", ...
std::string_view Name(Isa isa);

/// Operand type of the matrix products of tensors of `dtype`: bf16 where the CPU multiplies it, f32
/// otherwise.
Dtype ComputeDtype(Dtype dtype);

/// Whether oneDNN multiplies bf16 and 8-bit integers in a matrix unit.
bool HasMatrixUnit();

/// Whether there are products of 8-bit integers: from AVX2 on.
bool MultipliesInt8();

/// Whether the CPU has instructions for them that do not saturate halfway; oneDNN uses no others.
bool HasVnni();

}  // namespace attention
