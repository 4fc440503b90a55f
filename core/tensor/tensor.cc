#include "core/tensor/tensor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention {

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t NumElements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return 0;  // the product of the other extents need not fit
  }
  int64_t product = 1;
  for (const int64_t extent : shape) {
    product *= extent;
  }
  return product;
}

std::optional<int64_t> CheckedBytes(std::span<const int64_t> shape, int64_t element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return 0;
  }
  int64_t size = element_bytes;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(size, extent, &size)) {
      return std::nullopt;
    }
  }
  return size;
}

Tensor::Tensor(Dtype dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), buffer_(size_bytes()) {}

Tensor Tensor::ConvertedTo(Dtype dtype) const {
  Tensor result(dtype, shape_);
  Convert(dtype_, data(), dtype, result.data(), num_elements());
  return result;
}

}  // namespace attention
