// The layout of the packed keys and values of one key/value head: where the key blocks of a head
// lie in a page, and where an element lies in a key block. The vector code of core/kernels/tile
// writes key blocks, and the products read them as the packed B of a GemmShape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels/onednn/packed_index.h"
#include "core/kernels/tile/key_block.h"
#include "core/runtime/round_up.h"
#include "core/tensor/dtype.h"

namespace attention {

/// The number format of stored keys and values. kInt8: 8-bit integers with one scale for each row.
enum class KeyValueStorage { kF32, kBf16, kInt8 };

constexpr int64_t ElementBytes(KeyValueStorage storage) {
  return storage == KeyValueStorage::kF32 ? 4 : storage == KeyValueStorage::kBf16 ? 2 : 1;
}

/// The number of rows that are interleaved in packed memory.
constexpr int64_t RowsTogether(KeyValueStorage storage) { return 4 / ElementBytes(storage); }

/// Returns the index of element `element` of key `key` within a key block, in which `together` rows
/// are interleaved.
constexpr int64_t KeyIndex(int64_t key, int64_t element, int64_t together) {
  return PackedIndex(element, key, kKeyBlock, together);
}

/// Returns the index of element `element` of the value of key `key`, where the values are `width`
/// wide. Keys and indices count from the first key of a key block.
constexpr int64_t ValueIndex(int64_t key, int64_t element, int64_t width, int64_t together) {
  return PackedIndex(key, element, width, together);
}

/// The key blocks of one head in one page. With n = RowsTogether, the keys of a block are [depth /
/// n][kKeyBlock][n], and its values are [kKeyBlock / n][value_width][n]. f32 values may be divided
/// into *panels* instead, each [keys of the page][value_columns].
struct HeadPage {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  int64_t value_columns = 0;  // of a panel; the width of a value where there is one panel
  int64_t panel_bytes = 0;    // from one panel to the next
  uint8_t* values_are_finite = nullptr;  // one per block
  // kInt8, one per key: x = scale * integer; offset = 128 * sum of the key's integers.
  float* key_scales = nullptr;
  float* key_offsets = nullptr;
  float* value_scales = nullptr;
};

/// The layout of one head in a page: offsets in bytes from its first byte. Without a cache, all
/// keys of a head are one page.
struct HeadLayout {
  /// `capacity` is a multiple of kKeyBlock; the widths are those of packed memory. Values are in
  /// panels of `columns`, which divide the width; 0: in one.
  HeadLayout(KeyValueStorage of, int64_t key_depth, int64_t width, int64_t capacity_keys,
             int64_t columns = 0)
      : storage(of),
        depth(key_depth),
        value_width(width),
        value_columns(columns > 0 ? columns : width),
        capacity(capacity_keys),
        values_at(capacity * depth * ElementBytes(storage)),
        flags_at(values_at + capacity * value_width * ElementBytes(storage)),
        scales_at(flags_at + RoundUp(capacity / kKeyBlock, 64)),
        bytes(scales_at + (storage == KeyValueStorage::kInt8
                               ? 3 * capacity * static_cast<int64_t>(sizeof(float))
                               : 0)) {}

  HeadPage At(std::byte* first) const {
    HeadPage page{.keys = first,
                  .values = first + values_at,
                  .value_columns = value_columns,
                  .panel_bytes = capacity * value_columns * ElementBytes(storage),
                  .values_are_finite = reinterpret_cast<uint8_t*>(first + flags_at)};
    if (storage == KeyValueStorage::kInt8) {
      page.key_scales = reinterpret_cast<float*>(first + scales_at);
      page.key_offsets = page.key_scales + capacity;
      page.value_scales = page.key_offsets + capacity;
    }
    return page;
  }
  int64_t KeyBytes(int64_t keys) const { return keys * depth * ElementBytes(storage); }
  int64_t ValueBytes(int64_t keys) const { return keys * value_width * ElementBytes(storage); }

  KeyValueStorage storage;
  int64_t depth, value_width, value_columns, capacity;
  int64_t values_at, flags_at, scales_at, bytes;
};

/// The packed keys and values of a cache.
struct CachedKeyValues {
  KeyValueStorage storage = KeyValueStorage::kF32;
  int64_t blocks_per_page = 0;
  int64_t num_kv_heads = 0;
  std::span<const HeadPage> pages;  // [pages, num_kv_heads]
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
