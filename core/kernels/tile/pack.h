// Packing and conversion of rows, in plain loops that the compiler vectorises. The file of each
// instruction set includes it.
#pragma once

#include "core/kernels/tile/element.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

// ---- Store ----

template <typename E>
inline void StoreRow(const float* __restrict source, float factor, int64_t cols,
                     typename E::Type* __restrict target) {
  // -0 + 0 is +0. Without it the sign of a tiny sum could depend on how many zeros were added after
  // it.
  for (int64_t i = 0; i < cols; ++i) {
    target[i] = E::Write(source[i] * factor + 0.0f);
  }
}

#ifdef __AVX512BF16__
template <>
inline void StoreRow<Element<Dtype::kBf16>>(const float* __restrict source, float factor,
                                            int64_t cols, uint16_t* __restrict target) {
  int64_t i = 0;
  for (; i + 16 <= cols; i += 16) {
    StoreBf16(MulAdd(Load(source + i), Set(factor), Vec{}), target + i);
  }
  if (i < cols) {
    const Vec last = LoadFirst(source + i, cols - i, 0.0f);
    StoreFirstBf16(MulAdd(last, Set(factor), Vec{}), cols - i, target + i);
  }
}
#endif

inline void StoreRows(const StoreTile& tile) {
  ForDtype(tile.target_dtype, [&tile](auto element) {
    using E = decltype(element);
    for (int64_t r = 0; r < tile.rows; ++r) {
      auto* target = static_cast<typename E::Type*>(tile.target) + r * tile.target_stride;
      if (tile.row_sum != nullptr && tile.row_sum[r] == 0) {
        __builtin_memset(target, 0, tile.cols * sizeof(*target));
        continue;
      }
      if (tile.row_sum != nullptr && tile.row_sum[r] < 0x1p-120f) {  // its reciprocal overflows
        for (int64_t i = 0; i < tile.cols; ++i) {
          target[i] = E::Write(tile.source[r * tile.source_stride + i] / tile.row_sum[r] + 0.0f);
        }
        continue;
      }
      const float factor = tile.row_sum == nullptr ? 1.0f : 1.0f / tile.row_sum[r];
      StoreRow<E>(tile.source + r * tile.source_stride, factor, tile.cols, target);
    }
  });
}

// ---- Copy ----

/// Sets elements [first, end) to 0. Usually there are none: the test saves a call of memset.
template <typename T>
inline void ZeroTail(T* values, int64_t first, int64_t end) {
  if (first < end) {
    __builtin_memset(values + first, 0, (end - first) * sizeof(T));
  }
}

inline void CopyRows(const PackSource& source, Dtype compute, int64_t width, bool negate,
                     void* target) {
  if (compute == Dtype::kBf16) {
    const uint16_t flip = negate ? 0x8000 : 0;
    for (int64_t r = 0; r < source.rows; ++r) {
      const uint16_t* from = static_cast<const uint16_t*>(source.data) + r * source.stride;
      uint16_t* to = static_cast<uint16_t*>(target) + r * width;
      for (int64_t i = 0; i < source.cols; ++i) {
        to[i] = from[i] ^ flip;
      }
      ZeroTail(to, source.cols, width);
    }
    return;
  }
  const float sign = negate ? -1.0f : 1.0f;
  ForDtype(source.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t r = 0; r < source.rows; ++r) {
      const auto* from = static_cast<const typename E::Type*>(source.data) + r * source.stride;
      float* to = static_cast<float*>(target) + r * width;
      for (int64_t i = 0; i < source.cols; ++i) {
        to[i] = sign * E::Read(from[i]);
      }
      ZeroTail(to, source.cols, width);
    }
  });
}

// ---- Pack rows (values) ----

constexpr uint32_t kExponentBf16 = 0x7f80;

/// Packs a row, and adds 0 to `check` for each value, or NaN if it is not finite. There are several
/// checks, so that an addition does not wait for the one before.
template <typename E>
inline void PackRowF32(const typename E::Type* __restrict from, int64_t cols, int64_t width,
                       float* __restrict to, Register (&check)[4]) {
  int64_t i = 0;
  for (; i + 4 * kRegisterLanes <= cols; i += 4 * kRegisterLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Register v = ReadRegister<E>(from + i + k * kRegisterLanes);
      check[k] += v * 0.0f;
      StoreRegister(v, to + i + k * kRegisterLanes);
    }
  }
  for (; i < cols; i += kRegisterLanes) {  // the width is a multiple of kRegisterLanes
    const int64_t left = cols - i;
    const Register v =
        left < kRegisterLanes ? ReadFirst<E>(from + i, left) : ReadRegister<E>(from + i);
    check[0] += v * 0.0f;
    StoreRegister(v, to + i);
  }
  ZeroTail(to, i, width);
}

template <typename E>
inline bool PackRowsF32(const PackSource& source, int64_t width, float* target) {
  Register check[4] = {};
  for (int64_t r = 0; r < source.rows; ++r) {
    const auto* from = static_cast<const typename E::Type*>(source.data) + r * source.stride;
    PackRowF32<E>(from, source.cols, width, target + r * width, check);
  }
  const Register sum = (check[0] + check[1]) + (check[2] + check[3]);
  float lanes = 0;
  for (int64_t i = 0; i < kRegisterLanes; ++i) {
    lanes += sum[i];
  }
  return lanes == 0;
}

inline bool PackRowPairBf16(const uint16_t* __restrict even, const uint16_t* __restrict odd,
                            int64_t cols, uint32_t* __restrict to) {
  uint32_t non_finite = 0;
  for (int64_t i = 0; i < cols; ++i) {
    to[i] = even[i] | (uint32_t{odd[i]} << 16);
    non_finite |= (even[i] & kExponentBf16) == kExponentBf16;
    non_finite |= (odd[i] & kExponentBf16) == kExponentBf16;
  }
  return non_finite == 0;
}

inline bool PackRowsBf16(const PackSource& source, int64_t width, uint32_t* target) {
  const auto* rows = static_cast<const uint16_t*>(source.data);
  alignas(64) static constexpr uint16_t kZeros[512] = {};
  bool finite = true;
  for (int64_t r = 0; r < source.packed_rows; r += 2) {
    uint32_t* to = target + r / 2 * width;
    if (r >= source.rows) {
      __builtin_memset(to, 0, width * sizeof(*to));
      continue;
    }
    const uint16_t* even = rows + r * source.stride;
    const uint16_t* odd = r + 1 < source.rows ? even + source.stride : kZeros;
    finite &= PackRowPairBf16(even, odd, source.cols, to);
    ZeroTail(to, source.cols, width);
  }
  return finite;
}

inline bool PackRows(const PackSource& source, Dtype compute, int64_t width, void* target) {
  if (compute == Dtype::kBf16) {
    return PackRowsBf16(source, width, static_cast<uint32_t*>(target));
  }
  bool finite = true;
  auto* to = static_cast<float*>(target);
  ForDtype(source.dtype,
           [&](auto element) { finite = PackRowsF32<decltype(element)>(source, width, to); });
  __builtin_memset(to + source.rows * width, 0,
                   (source.packed_rows - source.rows) * width * sizeof(float));
  return finite;
}

// ---- Pack transposed (keys) ----

/// Reads a square of registers, of which only `rows` rows of `count` source columns exist. The
/// other lanes become 0.
template <typename E>
inline void LoadSquare(const typename E::Type* from, int64_t stride, int64_t rows, int64_t count,
                       Register (&v)[kRegisterLanes]) {
  for (int64_t r = 0; r < kRegisterLanes; ++r) {
    v[r] = r < rows ? ReadFirst<E>(from + r * stride, count) : Register{};
  }
}

/// Writes source.packed_rows of the kKeyBlock 32-bit lanes of each of `lanes` packed rows. A lane
/// has `per_lane` source columns.
template <typename E>
inline void PackTransposedLanes(const PackSource& source, int64_t per_lane, int64_t lanes,
                                float* target) {
  const auto* data = static_cast<const typename E::Type*>(source.data);
  const int64_t square_columns = kRegisterLanes * per_lane;
  for (int64_t row = 0; row < source.packed_rows; row += kRegisterLanes) {
    if (row >= source.rows) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        StoreRegister(Register{}, target + lane * kKeyBlock + row);
      }
      continue;
    }
    for (int64_t lane = 0; lane < lanes; lane += kRegisterLanes) {
      const auto* from = data + row * source.stride + lane * per_lane;
      const int64_t count = source.cols - lane * per_lane;
      Register v[kRegisterLanes];
      if (row + kRegisterLanes <= source.rows && count >= square_columns) {
#pragma GCC unroll 16
        for (int r = 0; r < kRegisterLanes; ++r) {
          v[r] = ReadRegister<E>(from + r * source.stride);
        }
      } else {
        LoadSquare<E>(from, source.stride, source.rows - row,
                      count < 0 ? 0 : (count < square_columns ? count : square_columns), v);
      }
      Transpose(v);
      const int64_t wanted = lanes - lane < kRegisterLanes ? lanes - lane : kRegisterLanes;
      for (int64_t k = 0; k < wanted; ++k) {
        __builtin_memcpy(target + (lane + k) * kKeyBlock + row, &v[k], sizeof(v[k]));
      }
    }
  }
}

inline void PackTransposed(const PackSource& source, Dtype compute, int64_t depth, void* target) {
  auto* to = static_cast<float*>(target);
  if (compute == Dtype::kBf16) {
    return PackTransposedLanes<Bf16Pairs>(source, 2, depth / 2, to);
  }
  ForDtype(source.dtype,
           [&](auto element) { PackTransposedLanes<decltype(element)>(source, 1, depth, to); });
}

}  // namespace
}  // namespace attention
