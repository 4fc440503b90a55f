#include "core/tensor/tensor.h"

#include <utility>

namespace attention {

int64_t NumElements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    product *= extent;
  }
  return product;
}

Tensor::Tensor(Dtype dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), buffer_(size_bytes()) {}

Tensor Tensor::ConvertedTo(Dtype dtype) const {
  Tensor result(dtype, shape_);
  Convert(dtype_, data(), dtype, result.data(), num_elements());
  return result;
}

}  // namespace attention
