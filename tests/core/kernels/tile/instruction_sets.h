// The instruction sets that tile kernels are compiled for, whatever ONEDNN_MAX_CPU_ISA says.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tables.h"
#include "core/kernels/tile/tile_kernels.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/primitives.h"

namespace attention {

/// Tests take every number of floats up to it: three of the widest vectors.
inline constexpr int64_t kThreeVectors = 48;

/// The processors that code is tuned for. This one can run the code for all.
inline constexpr Processor kProcessors[] = {
    {},                                           // as AMD's before Zen 3
    {.has_avx512 = true},                         // a Zen 5
    {.is_intel = true},                           // Intel's for desktops
    {.is_intel = true, .has_avx512 = true},       // Intel's for servers
    {.is_zen3_or_4 = true},                       // a Zen 3
    {.is_zen3_or_4 = true, .has_avx512 = true}};  // a Zen 4

struct InstructionSet {
  std::string name;
  const TileKernels* kernels;
  const VectorPrimitives* primitives;
  bool in_processor = true;
  bool has_bf16 = false;  // the kernels work on bf16 operands
  bool has_fma = true;    // products are not rounded before they are added

  friend void PrintTo(const InstructionSet& set, std::ostream* os) { *os << set.name; }
};

/// All of this architecture.
inline std::vector<InstructionSet> InstructionSets() {
#ifdef __aarch64__
  return {{"Neon", &kTileKernelsNeon, &kVectorPrimitivesNeon}};
#else
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  return {
      {"Sse41", &kTileKernelsSse41, &kVectorPrimitivesSse41, true, false, false},
      {"Avx2", &kTileKernelsAvx2, &kVectorPrimitivesAvx2, avx2},
      {"Avx2Vnni", &kTileKernelsAvx2Vnni, &kVectorPrimitivesAvx2,
       avx2 && __builtin_cpu_supports("avxvnni")},
      {"Avx512", &kTileKernelsAvx512, &kVectorPrimitivesAvx512, avx512},
      {"Avx512Vnni", &kTileKernelsAvx512Vnni, &kVectorPrimitivesAvx512, vnni},
      {"Avx512Bf16", &kTileKernelsAvx512Bf16, &kVectorPrimitivesAvx512,
       vnni && __builtin_cpu_supports("avx512bf16"), true},
  };
#endif
}

/// A test of each of them, skipped where the processor lacks it.
class InstructionSetTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (!GetParam().in_processor) {
      GTEST_SKIP() << "skipped " << GetParam().name << ": this processor lacks it";
    }
  }

  const TileKernels& kernels() const { return *GetParam().kernels; }
  const VectorPrimitives& primitives() const { return *GetParam().primitives; }
};

inline std::string SetName(const ::testing::TestParamInfo<InstructionSet>& set) {
  return set.param.name;
}

}  // namespace attention
