#include "core/tensor/tensor.h"

#include <new>
#include <utility>

namespace attention {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

AlignedBuffer::AlignedBuffer(size_t size_bytes)
    : data_(static_cast<std::byte*>(::operator new(size_bytes, kAlignment))),
      size_bytes_(size_bytes) {}

void AlignedBuffer::Deleter::operator()(std::byte* data) const {
  ::operator delete(data, kAlignment);
}

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
