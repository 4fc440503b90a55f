// The memory of the packed keys and values of one key/value head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention_plan.h"
#include "core/tensor/dtype.h"

namespace attention {

/// The number format of stored keys and values. kInt8: 8-bit integers with one scale for each row.
enum class KeyValueStorage { kF32, kBf16, kInt8 };

constexpr int64_t ElementBytes(KeyValueStorage storage) {
  return storage == KeyValueStorage::kF32 ? 4 : storage == KeyValueStorage::kBf16 ? 2 : 1;
}

/// The number of rows that are interleaved in packed memory.
constexpr int64_t RowsTogether(KeyValueStorage storage) { return 4 / ElementBytes(storage); }

/// A page of one head: consecutive blocks of kKeyBlock keys. With n = RowsTogether: a block of keys
/// is [depth / n][kKeyBlock][n], one of values [kKeyBlock / n][value_width][n].
struct HeadPage {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  uint8_t* values_are_finite = nullptr;  // one per block
  // kInt8, one per key: x = scale * integer; offset = 128 * sum of the key's integers.
  float* key_scales = nullptr;
  float* key_offsets = nullptr;
  float* value_scales = nullptr;
};

/// The pages of one head. Block b is block b % blocks_per_page of page pages[b / blocks_per_page *
/// page_stride]. A page starts at a multiple of kKeyTile keys.
struct PackedHead {
  const HeadPage* pages = nullptr;
  int64_t page_stride = 1;
  int64_t blocks_per_page = INT64_MAX / kKeyBlock;
  KeyValueStorage storage = KeyValueStorage::kF32;
};

}  // namespace attention
