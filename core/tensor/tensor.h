// Owned and borrowed tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/aligned_buffer.h"
#include "core/tensor/dtype.h"

namespace attention {

using Shape = std::vector<int64_t>;

/// Returns "[2, 5, 512]".
std::string ShapeText(const Shape& shape);

/// Returns the product of the extents, 0 if one of them is 0. REQUIRES: every extent >= 0 and the
/// product fits.
int64_t NumElements(const Shape& shape);

/// Returns the size in bytes of a tensor with elements of `element_bytes` bytes; nullopt if it is
/// 2^63 or more. Checks every partial product, so that a wrong shape cannot overflow to a small
/// number. A tensor with an extent of 0 has 0 bytes. REQUIRES: every extent >= 0.
std::optional<int64_t> CheckedBytes(std::span<const int64_t> shape, int64_t element_bytes);

/// A dense row-major tensor that owns its memory. The memory of a new tensor is uninitialised.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Dtype dtype, Shape shape);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return NumElements(shape_); }
  size_t size_bytes() const { return num_elements() * SizeOf(dtype_); }

  void* data() { return buffer_.data(); }
  const void* data() const { return buffer_.data(); }
  /// REQUIRES: sizeof(T) == SizeOf(dtype()).
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(buffer_.data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(buffer_.data());
  }

  /// Returns a dense copy with another element type.
  Tensor ConvertedTo(Dtype dtype) const;

 private:
  Dtype dtype_ = Dtype::kF32;
  Shape shape_ = {0};
  AlignedBuffer buffer_;
};

/// A borrowed matrix `[rows, cols]`: columns are contiguous, rows are `row_stride` elements apart.
template <typename Pointer>
struct BasicMatrixView {
  Pointer data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
};
using MatrixView = BasicMatrixView<const void*>;
using MutableMatrixView = BasicMatrixView<void*>;

/// Borrowed heads `[tokens, num_heads, head_dim]`: the elements of a head are contiguous; heads and
/// tokens have any stride (in elements).
template <typename Pointer>
struct BasicHeadsView {
  Pointer data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t tokens = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};
using HeadsView = BasicHeadsView<const void*>;
using MutableHeadsView = BasicHeadsView<void*>;

/// The dense view of `[tokens, num_heads, head_dim]` at `data`.
template <typename Pointer>
BasicHeadsView<Pointer> DenseHeads(Pointer data, Dtype dtype, int64_t tokens, int64_t num_heads,
                                   int64_t head_dim) {
  return {data, dtype, tokens, num_heads, head_dim, num_heads * head_dim, head_dim};
}

/// Returns the address of element `index` of `data`; null of null, since a view without elements
/// may have no address.
inline const void* ElementAt(const void* data, Dtype dtype, int64_t index) {
  return data == nullptr
             ? nullptr
             : static_cast<const std::byte*>(data) + index * static_cast<int64_t>(SizeOf(dtype));
}
inline void* ElementAt(void* data, Dtype dtype, int64_t index) {
  return const_cast<void*>(ElementAt(static_cast<const void*>(data), dtype, index));
}

/// The view's rows [first, first + count).
template <typename Pointer>
BasicMatrixView<Pointer> SliceRows(BasicMatrixView<Pointer> view, int64_t first, int64_t count) {
  view.data = ElementAt(view.data, view.dtype, first * view.row_stride);
  view.rows = count;
  return view;
}

inline MatrixView ReadOnly(const MutableMatrixView& view) {
  return {view.data, view.dtype, view.rows, view.cols, view.row_stride};
}

/// The view's tokens [first, first + count).
template <typename Pointer>
BasicHeadsView<Pointer> SliceTokens(BasicHeadsView<Pointer> view, int64_t first, int64_t count) {
  view.data = ElementAt(view.data, view.dtype, first * view.token_stride);
  view.tokens = count;
  return view;
}

}  // namespace attention
