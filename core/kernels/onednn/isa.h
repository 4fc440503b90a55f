// The processor, and the instruction set that this process uses. They are asked for here alone,
// apart from the least instruction set (core/runtime/baseline.cc).
#pragma once

#include <string_view>

#include "core/tensor/dtype.h"

namespace attention {

/// The instruction sets for which the vector code is compiled: NEON on ARM64, the others on x86-64.
/// Each x86-64 set includes those before it, except that kAvx512 does not include VNNI.
enum class Isa { kNeon, kSse41, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAvx512Bf16 };

/// How products of operands of one type are computed.
enum class Products {
  kEmulated,    // in f32
  kVectors,     // by vector instructions for the type
  kMatrixUnit,  // by AMX, whose bits differ from those of vectors
};

/// Returns "emulated", "vectors" or "matrix unit".
std::string_view Name(Products products);

/// The kind of the processor. Of several ways to compute the same bits, the kernels take the one
/// that is fastest on it; every processor can run them all. ONEDNN_MAX_CPU_ISA does not change it:
/// with fewer instructions, the code is still tuned for the processor that there is.
struct Processor {
  bool is_intel = false;
  /// AMD's family 19h. With AVX-512 it is a Zen 4, without it a Zen 3.
  bool is_zen3_or_4 = false;
  bool has_avx512 = false;
};

/// The instruction set in use, and what it offers.
struct Abilities {
  Isa isa = Isa::kSse41;
  int vector_bits = 128;
  /// Whether oneDNN generates kernels for f32 products: from AVX2 on.
  bool has_ukernels = false;
  /// Whether there are instructions that add products of 8-bit integers without saturating the sums
  /// of two (VNNI). Without them, oneDNN would use instructions that saturate these sums.
  bool has_vnni = false;
  /// How products of bf16 and of 8-bit integers are computed.
  Products bf16 = Products::kEmulated;
  Products int8 = Products::kEmulated;
  Processor processor = {};
};

/// Returns the abilities that our code and oneDNN use: those of the CPU, limited by the environment
/// variable ONEDNN_MAX_CPU_ISA (SSE41, AVX2, AVX2_VNNI, AVX512_CORE, AVX512_CORE_VNNI,
/// AVX512_CORE_BF16, AVX512_CORE_AMX, ...). The variable is read at the first call; ARM64 ignores
/// it. Intel's vector instructions for bf16 are slower than those for f32: they are used on Cooper
/// Lake, or when the variable is AVX512_CORE_BF16. Thread-safe, as all functions here.
const Abilities& CurrentAbilities();

/// Returns CurrentAbilities().isa.
Isa CurrentIsa();

/// Returns "NEON", or the name in ONEDNN_MAX_CPU_ISA: "SSE41", "AVX2", ...
std::string_view Name(Isa isa);

/// Returns the operand type of the matrix products of tensors of `dtype`: bf16 for bf16 tensors
/// unless CurrentAbilities().bf16 is kEmulated, else f32.
Dtype ComputeDtype(Dtype dtype);

/// Returns whether oneDNN multiplies bf16 and 8-bit integers in a matrix unit (AMX).
bool HasMatrixUnit();

/// Returns whether 8-bit integers are multiplied as integers: on x86-64.
bool MultipliesInt8();

}  // namespace attention
