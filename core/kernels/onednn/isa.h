// The instruction-set level of this process.
#pragma once

#include <string_view>

#include "core/tensor/dtype.h"

namespace attention {

/// Levels that our own code is compiled for; each includes the ones before it.
enum class Isa { kSse41, kAvx2, kAvx512, kAvx512Bf16 };

/// The one decision for our code and oneDNN's alike: what the CPU has, capped by the environment
/// variable ONEDNN_MAX_CPU_ISA (SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16, ...) as it stood at the
/// first call.
Isa CurrentIsa();

/// "SSE41", "AVX2", "AVX512_CORE" or "AVX512_CORE_BF16".
std::string_view Name(Isa isa);

/// Operand type of the matrix products of tensors of `dtype`: bf16 where the CPU multiplies it, f32
/// otherwise.
Dtype ComputeDtype(Dtype dtype);

/// Whether oneDNN multiplies bf16 and 8-bit integers in a matrix unit (AMX), whose bits are its
/// own.
bool HasMatrixUnit();

/// Whether the CPU multiplies 8-bit integers without saturating halfway (VNNI).
bool MultipliesInt8();

}  // namespace attention
