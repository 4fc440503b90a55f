#include "core/tensor/tensor.h"

#include <new>
#include <utility>

#include "core/tensor/huge_pages.h"

namespace attention {
namespace {

size_t AlignmentOf(size_t size_bytes) { return size_bytes < 2 * kHugePageBytes ? 64 : kHugePageBytes; }

}  // namespace

AlignedBuffer::AlignedBuffer(size_t size_bytes)
    : data_(static_cast<std::byte*>(
                ::operator new(size_bytes, std::align_val_t{AlignmentOf(size_bytes)})),
            Deleter{AlignmentOf(size_bytes)}),
      size_bytes_(size_bytes) {
  if (AlignmentOf(size_bytes) == kHugePageBytes) {
    AdviseHugePages(data_.get(), size_bytes);
  }
}

void AlignedBuffer::Deleter::operator()(std::byte* data) const {
  ::operator delete(data, std::align_val_t{alignment});
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
