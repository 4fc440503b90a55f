// The instruction sets that tile kernels are compiled for, whatever ONEDNN_MAX_CPU_ISA says.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/kernels/tile/tables.h"
#include "core/kernels/tile/tile_kernels.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/primitives.h"

namespace attention {

/// Tests take every number of floats up to it: three of the widest vectors.
inline constexpr int64_t kThreeVectors = 48;

struct InstructionSet {
  std::string name;
  const TileKernels* kernels;
  const VectorPrimitives* primitives;
  bool has_bf16 = false;  // the kernels work on bf16 operands
  bool has_fma = true;    // products are not rounded before they are added

  friend void PrintTo(const InstructionSet& set, std::ostream* os) { *os << set.name; }
};

/// Those that this processor has.
inline std::vector<InstructionSet> InstructionSets() {
#ifdef __aarch64__
  return {{"Neon", &kTileKernelsNeon, &kVectorPrimitivesNeon}};
#else
  __builtin_cpu_init();
  std::vector<InstructionSet> sets = {
      {"Sse41", &kTileKernelsSse41, &kVectorPrimitivesSse41, false, false}};
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return sets;
  }
  sets.push_back({"Avx2", &kTileKernelsAvx2, &kVectorPrimitivesAvx2});
  if (__builtin_cpu_supports("avxvnni")) {
    sets.push_back({"Avx2Vnni", &kTileKernelsAvx2Vnni, &kVectorPrimitivesAvx2});
  }
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return sets;
  }
  sets.push_back({"Avx512", &kTileKernelsAvx512, &kVectorPrimitivesAvx512});
  if (__builtin_cpu_supports("avx512vnni")) {
    sets.push_back({"Avx512Vnni", &kTileKernelsAvx512Vnni, &kVectorPrimitivesAvx512});
    if (__builtin_cpu_supports("avx512bf16")) {
      sets.push_back({"Avx512Bf16", &kTileKernelsAvx512Bf16, &kVectorPrimitivesAvx512, true});
    }
  }
  return sets;
#endif
}

/// A test of each of them.
class InstructionSetTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  const TileKernels& kernels() const { return *GetParam().kernels; }
  const VectorPrimitives& primitives() const { return *GetParam().primitives; }
};

inline std::string SetName(const ::testing::TestParamInfo<InstructionSet>& set) {
  return set.param.name;
}

}  // namespace attention
