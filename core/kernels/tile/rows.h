// Norm, rotation and feature map of query and key rows, and their rounding to 8 bits, mostly in
// plain loops that the compiler vectorises. The file of each instruction set includes it.
#pragma once

#include "core/kernels/tile/pack.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// The maximum number of elements of a row that are in memory as f32 at a time.
inline constexpr int64_t kPreparedElements = 512;

/// A row in f32, or some elements of it, followed by zeros up to a multiple of 16.
struct alignas(64) PreparedRow {
  float values[kPreparedElements];
};

/// Reads the elements of a row from `first` on, as many as a PreparedRow holds. Returns their
/// number.
template <typename E>
inline int64_t ReadElements(const typename E::Type* from, int64_t first, int64_t cols,
                            PreparedRow& row) {
  const int64_t count = cols - first < kPreparedElements ? cols - first : kPreparedElements;
  for (int64_t i = 0; i < count; ++i) {
    row.values[i] = E::Read(from[first + i]);
  }
  for (int64_t i = count; i % 16 != 0; ++i) {
    row.values[i] = 0;
  }
  return count;
}

inline Vec SumOfSquares(const float* values, int64_t count) {
  Vec sum = {};
  for (int64_t i = 0; i < count; i += 16) {
    const Vec v = Load(values + i);
    sum = MulAdd(v, v, sum);
  }
  return sum;
}

inline void NormaliseRow(const RowPreparation& rows, float* values) {
  const int64_t cols = rows.source.cols;
  float sum = ReduceSum(SumOfSquares(values, cols));
  float epsilon = rows.norm_epsilon;
  if (sum > __FLT_MAX__) {  // the squares overflow: a smaller row has the same result
    constexpr float kShrinking = 0x1p-80f;
    for (int64_t i = 0; i < cols; ++i) {
      values[i] *= kShrinking;
    }
    sum = ReduceSum(SumOfSquares(values, cols));
    epsilon = epsilon * kShrinking * kShrinking;
  }
  const float factor = 1.0f / __builtin_sqrtf(sum / static_cast<float>(cols) + epsilon);
  for (int64_t i = 0; i < cols; ++i) {
    values[i] *= rows.norm_weight == nullptr ? factor : factor * rows.norm_weight[i];
  }
}

inline void RotateRow(const RowPreparation& rows, const float* rotations, float* values) {
  const int64_t pairs = rows.rotary_dim / 2;
  const float* cosines = rotations;
  const float* sines = rotations + pairs;
  if (rows.interleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float a = values[2 * i];
      const float b = values[2 * i + 1];
      values[2 * i] = a * cosines[i] - b * sines[i];
      values[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
    return;
  }
  float* __restrict first = values;
  float* __restrict second = values + pairs;
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * cosines[i] - b * sines[i];
    second[i] = b * cosines[i] + a * sines[i];
  }
}

inline void MapFeatures(int64_t cols, float* values) {
  for (int64_t i = 0; i < cols; i += 16) {
    const Vec x = Load(values + i);
    Store(IfLess(Vec{}, x, x + 1.0f, Exp(x)), values + i);
  }
  for (int64_t i = cols; i % 16 != 0; ++i) {
    values[i] = 0;
  }
}

inline void PrepareRows(const RowPreparation& rows, Dtype target_dtype, void* target) {
  const PackSource& source = rows.source;
  PreparedRow row;
  __builtin_memset(&row, 0, sizeof(row));
  ForDtype(source.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t r = 0; r < source.rows; ++r) {
      const auto* from = static_cast<const typename E::Type*>(source.data) + r * source.stride;
      for (int64_t i = 0; i < source.cols; ++i) {
        row.values[i] = E::Read(from[i]);
      }
      if (rows.has_norm) {
        NormaliseRow(rows, row.values);
      }
      if (rows.rotary_dim > 0) {
        RotateRow(rows, rows.rotations + r * rows.rotary_dim, row.values);
      }
      if (rows.has_feature_map) {
        MapFeatures(source.cols, row.values);
      }
      ForDtype(target_dtype, [&](auto target_element) {
        using T = decltype(target_element);
        auto* to = static_cast<typename T::Type*>(target) + r * source.cols;
        for (int64_t i = 0; i < source.cols; ++i) {
          to[i] = T::Write(row.values[i]);
        }
      });
    }
  });
}

// ---- 8 bits ----

/// Returns the larger of `largest` and the magnitudes of `count` values, which are followed by
/// zeros up to a multiple of 16. Adds NaN to `check` if one of them is not finite.
inline float LargestMagnitude(const float* values, int64_t count, float largest, float& check) {
  Vec best = Set(largest);
  Vec sum = {};
  for (int64_t i = 0; i < count; i += 16) {
    const Vec v = Load(values + i);
    best = Max(Abs(v), best);
    sum += v * 0.0f;
  }
  check += ReduceSum(sum);
  return ReduceMax(best);
}

/// Writes each element as an integer from -127 to 127, plus 128. A row that is not finite gets the
/// scale NaN.
inline void QuantiseRows(const PackSource& source, const QuantisedRows& target) {
  PreparedRow row;
  __builtin_memset(&row, 0, sizeof(row));
  ForDtype(source.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t r = 0; r < source.rows; ++r) {
      const auto* from = static_cast<const typename E::Type*>(source.data) + r * source.stride;
      float check = 0;
      float largest = 0;
      for (int64_t first = 0; first < source.cols; first += kPreparedElements) {
        const int64_t count = ReadElements<E>(from, first, source.cols, row);
        largest = LargestMagnitude(row.values, count, largest, check);
      }
      const bool is_finite = check == 0;
      const float to_integer = is_finite && largest > 0x1p-100f ? 127.0f / largest : 0.0f;
      target.scales[r] = is_finite ? largest / 127.0f : __builtin_nanf("");
      uint8_t* to = target.values + r * target.width;
      for (int64_t first = 0; first < source.cols; first += kPreparedElements) {
        const int64_t count = ReadElements<E>(from, first, source.cols, row);
        for (int64_t i = 0; i < count; ++i) {
          const float scaled = row.values[i] * to_integer;
          const float in_range = scaled == scaled ? scaled : 0.0f;
          to[first + i] = static_cast<uint8_t>(static_cast<int32_t>(in_range + 128.5f));
        }
      }
      __builtin_memset(to + source.cols, 128, target.width - source.cols);
    }
  });
}

/// The numbers of packed memory. A 32-bit lane holds kTogether of them, one of each row of a group;
/// Read returns number k of each lane as f32.
struct PackedBf16 {
  static constexpr int kTogether = 2;
  static Register Read(Integers lanes, int k) {
    return __builtin_bit_cast(Register,
                              k == 0 ? lanes << 16 : lanes & static_cast<int32_t>(0xffff0000));
  }
};
struct PackedInt8 {
  static constexpr int kTogether = 4;
  static Register Read(Integers lanes, int k) {
    return __builtin_convertvector((lanes << (24 - 8 * k)) >> 24, Register);
  }
};

/// Writes kTogether rows of f32. Multiplies number i of row k by scales(k, i).
template <typename Packed, typename Scales>
inline void ExpandScaled(const char* from, int64_t cols, float* to, const Scales& scales) {
  for (int64_t i = 0; i < cols; i += kRegisterLanes, from += sizeof(Integers)) {
    Integers lanes;
    __builtin_memcpy(&lanes, from, sizeof(lanes));
#pragma GCC unroll 4
    for (int k = 0; k < Packed::kTogether; ++k) {
      StoreRegister(Packed::Read(lanes, k) * scales(k, i), to + k * cols + i);
    }
  }
}

template <typename Packed>
inline void ExpandRows(const ExpandTile& tile) {
  const auto* from = static_cast<const char*>(tile.source);
  const int64_t source_cols = tile.source_cols == 0 ? tile.cols : tile.source_cols;
  for (int64_t row = 0; row < tile.rows; row += Packed::kTogether, from += source_cols * 4) {
    float* to = tile.target + row * tile.cols;
    if (const float* column_scales = tile.column_scales; column_scales != nullptr) {
      ExpandScaled<Packed>(from, tile.cols, to, [column_scales](int /*k*/, int64_t i) {
        return LoadRegister(column_scales + i);
      });
      continue;
    }
    Register scales[Packed::kTogether];
    for (int k = 0; k < Packed::kTogether; ++k) {
      scales[k] = SetRegister(tile.row_scales == nullptr ? 1.0f : tile.row_scales[row + k]);
    }
    ExpandScaled<Packed>(from, tile.cols, to,
                         [&scales](int k, int64_t /*i*/) { return scales[k]; });
  }
}

inline void Expand(const ExpandTile& tile) {
  if (tile.int8) {
    ExpandRows<PackedInt8>(tile);
  } else {
    ExpandRows<PackedBf16>(tile);
  }
}

inline void DequantiseScores(const DequantisedScores& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* row = tile.scores + r * tile.stride;
    for (int64_t j = 0; j < tile.cols; ++j) {
      const auto product = static_cast<int32_t>(FloatToBits(row[j]));
      row[j] = (static_cast<float>(product) - tile.key_offsets[j]) *
               (tile.query_scales[r] * tile.key_scales[j]);
    }
  }
}

inline void QuantiseProbabilities(const QuantisedProbabilities& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* row = tile.probabilities + r * tile.stride;
    const float largest = tile.largest[r];
    tile.row_scales[r] = largest / 255.0f;
    const bool is_usable = largest > 0x1p-100f && largest <= __FLT_MAX__;
    const Vec to_integer = Set(is_usable ? 255.0f / largest : 0.0f);
    uint8_t* to = tile.target + r * tile.stride;
    for (int64_t i = 0; i < tile.cols; i += 16) {
      const Vec scaled = Load(row + i);
      StoreBytes(is_usable ? MulAdd(scaled, to_integer, Set(0.5f)) : Vec{}, to + i);
    }
  }
}

inline void AddScaled(const ScaledSums& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int32_t* __restrict sums = tile.sums + r * tile.cols;
    float* __restrict target = tile.target + r * tile.cols;
    for (int64_t i = 0; i < tile.cols; ++i) {
      target[i] += tile.row_scales[r] * static_cast<float>(sums[i]);
    }
  }
}

}  // namespace
}  // namespace attention
