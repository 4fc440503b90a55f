#include "core/runtime/aligned_buffer.h"

#include <new>

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

}  // namespace attention
