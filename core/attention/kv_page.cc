#include "core/attention/kv_page.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

HeadLayout LayoutOf(const KvCacheShape& shape, int64_t capacity) {
  return {shape.storage, AttentionPlan::PaddedWidth(shape.head_dim),
          AttentionPlan::PaddedWidth(shape.value_head_dim), capacity};
}

template <typename T>
void ScatterKeys(const void* rows, int64_t cols, int64_t first, int64_t count, std::byte* block) {
  constexpr int64_t kTogether = 4 / sizeof(T);
  const auto* from = static_cast<const T*>(rows);
  auto* to = reinterpret_cast<T*>(block);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t d = 0; d < cols; ++d) {
      to[KeyIndex(first + r, d, kTogether)] = from[r * cols + d];
    }
  }
}

template <typename T>
void ScatterValues(const void* rows, int64_t cols, int64_t width, int64_t first, int64_t count,
                   std::byte* block) {
  constexpr int64_t kTogether = 4 / sizeof(T);
  const auto* from = static_cast<const T*>(rows);
  auto* to = reinterpret_cast<T*>(block);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < cols; ++i) {
      to[ValueIndex(first + r, i, width, kTogether)] = from[r * cols + i];
    }
  }
}

bool AreFinite(const void* rows, Dtype dtype, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == Dtype::kBf16) {
      finite &= (static_cast<const uint16_t*>(rows)[i] & 0x7f80) != 0x7f80;
    } else {
      uint32_t bits = 0;
      std::memcpy(&bits, static_cast<const float*>(rows) + i, sizeof(bits));
      finite &= (bits & 0x7f800000) != 0x7f800000;
    }
  }
  return finite;
}

/// Rows of one head, rounded to 8 bits.
struct Integers {
  Integers(const void* rows, int64_t cols, int64_t count) {
    std::array<uint8_t, kKeyBlock * kMaxHeadDim> shifted;
    CurrentTileKernels().quantise_rows({rows, Dtype::kF32, cols, count, cols},
                                       {shifted.data(), cols, scales.data()});
    for (int64_t r = 0; r < count; ++r) {
      int32_t sum = 0;
      for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
        values[i] = static_cast<int8_t>(shifted[i] - 128);
        sum += values[i];
      }
      offsets[r] = static_cast<float>(128 * sum);
    }
  }

  std::array<int8_t, kKeyBlock * kMaxHeadDim> values;  // [count, cols]
  std::array<float, kKeyBlock> scales;
  std::array<float, kKeyBlock> offsets;
};

}  // namespace

size_t KvPage::SizeBytes(const KvCacheShape& shape, int64_t capacity) {
  return static_cast<size_t>(shape.num_kv_heads * LayoutOf(shape, capacity).bytes);
}

std::shared_ptr<KvPage> KvPage::Make(const KvCacheShape& shape, int64_t capacity,
                                     const std::shared_ptr<KvMemory>& memory,
                                     size_t replaced_bytes) {
  std::shared_ptr<KvPage> page(new KvPage(shape, capacity, memory));
  page->slot_ = memory->Take(page->size_bytes(), replaced_bytes);
  return page->slot_.memory == nullptr ? nullptr : page;
}

KvPage::KvPage(const KvCacheShape& shape, int64_t capacity, std::shared_ptr<KvMemory> memory)
    : shape_(shape), capacity_(capacity), memory_(std::move(memory)) {}

KvPage::~KvPage() {
  if (slot_.memory != nullptr) {
    memory_->GiveBack(slot_, size_bytes());
  }
}

HeadPage KvPage::Head(int64_t head) const {
  const HeadLayout layout = LayoutOf(shape_, capacity_);
  return layout.At(slot_.memory + head * layout.bytes);
}

void KvPage::CopyFrom(const KvPage& other, int64_t tokens) {
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    CopyHeadFrom(other, tokens, head);
  }
}

void KvPage::CopyHeadFrom(const KvPage& other, int64_t tokens, int64_t head) {
  const HeadLayout layout = LayoutOf(shape_, capacity_);
  const int64_t blocks = CeilDiv(tokens, kKeyBlock);
  const int64_t rows = blocks * kKeyBlock;
  const HeadPage from = other.Head(head);
  const HeadPage to = Head(head);
  std::memcpy(to.keys, from.keys, layout.KeyBytes(rows));
  std::memcpy(to.values, from.values, layout.ValueBytes(rows));
  std::memcpy(to.values_are_finite, from.values_are_finite, blocks);
  if (shape_.storage == KeyValueStorage::kInt8) {
    std::copy_n(from.key_scales, rows, to.key_scales);
    std::copy_n(from.key_offsets, rows, to.key_offsets);
    std::copy_n(from.value_scales, rows, to.value_scales);
  }
}

void KvRowWriter::ClearBlock(int64_t first) const {
  const int64_t bytes = ElementBytes(shape_.storage);
  const int64_t depth = AttentionPlan::PaddedWidth(shape_.head_dim);
  const int64_t width = AttentionPlan::PaddedWidth(shape_.value_head_dim);
  std::memset(page_.keys + first * depth * bytes, 0, kKeyBlock * depth * bytes);
  std::memset(page_.values + first * width * bytes, 0, kKeyBlock * width * bytes);
  page_.values_are_finite[first / kKeyBlock] = 1;
  if (shape_.storage == KeyValueStorage::kInt8) {
    for (float* scales : {page_.key_scales, page_.key_offsets, page_.value_scales}) {
      std::fill_n(scales + first, kKeyBlock, 0.0f);
    }
  }
}

void KvRowWriter::QuantiseKeys(const void* rows, int64_t first, int64_t count) const {
  const Integers integers(rows, shape_.head_dim, count);
  const int64_t block = first / kKeyBlock;
  ScatterKeys<int8_t>(integers.values.data(), shape_.head_dim, first % kKeyBlock, count,
                      page_.keys + block * kKeyBlock * AttentionPlan::PaddedWidth(shape_.head_dim));
  std::copy_n(integers.scales.data(), count, page_.key_scales + first);
  std::copy_n(integers.offsets.data(), count, page_.key_offsets + first);
}

void KvRowWriter::QuantiseValues(const void* rows, int64_t first, int64_t count) const {
  const Integers integers(rows, shape_.value_head_dim, count);
  const int64_t width = AttentionPlan::PaddedWidth(shape_.value_head_dim);
  const int64_t block = first / kKeyBlock;
  ScatterValues<int8_t>(integers.values.data(), shape_.value_head_dim, width, first % kKeyBlock,
                        count, page_.values + block * kKeyBlock * width);
  std::copy_n(integers.scales.data(), count, page_.value_scales + first);
  page_.values_are_finite[block] &= AreFinite(integers.scales.data(), Dtype::kF32, count);
}

void KvRowWriter::WriteKeys(const void* rows, int64_t first, int64_t count) const {
  if (shape_.storage == KeyValueStorage::kInt8) {
    return QuantiseKeys(rows, first, count);
  }
  const int64_t depth = AttentionPlan::PaddedWidth(shape_.head_dim);
  std::byte* block =
      page_.keys + first / kKeyBlock * kKeyBlock * depth * ElementBytes(shape_.storage);
  if (count == kKeyBlock) {
    CurrentTileKernels().pack_transposed(
        {rows, RowDtypeOf(shape_.storage), shape_.head_dim, count, shape_.head_dim},
        RowDtypeOf(shape_.storage), depth, block);
  } else if (RowDtypeOf(shape_.storage) == Dtype::kBf16) {
    ScatterKeys<uint16_t>(rows, shape_.head_dim, first % kKeyBlock, count, block);
  } else {
    ScatterKeys<float>(rows, shape_.head_dim, first % kKeyBlock, count, block);
  }
}

void KvRowWriter::WriteValues(const void* rows, int64_t first, int64_t count) const {
  if (shape_.storage == KeyValueStorage::kInt8) {
    return QuantiseValues(rows, first, count);
  }
  const int64_t cols = shape_.value_head_dim;
  const int64_t width = AttentionPlan::PaddedWidth(cols);
  std::byte* block =
      page_.values + first / kKeyBlock * kKeyBlock * width * ElementBytes(shape_.storage);
  if (count == kKeyBlock) {
    CurrentTileKernels().pack_rows({rows, RowDtypeOf(shape_.storage), cols, count, cols},
                                   RowDtypeOf(shape_.storage), width, block);
  } else if (RowDtypeOf(shape_.storage) == Dtype::kBf16) {
    ScatterValues<uint16_t>(rows, cols, width, first % kKeyBlock, count, block);
  } else {
    ScatterValues<float>(rows, cols, width, first % kKeyBlock, count, block);
  }
  page_.values_are_finite[first / kKeyBlock] &=
      AreFinite(rows, RowDtypeOf(shape_.storage), count * cols);
}

}  // namespace attention
