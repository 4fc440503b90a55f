#include "core/runtime/workspace.h"

namespace attention {

std::byte* ReusableBuffer::Reserve(size_t size_bytes) {
  if (size_bytes > buffer_.size_bytes()) {
    Free();  // first, so that both buffers are never held at once
    buffer_ = AlignedBuffer(size_bytes);
  }
  return buffer_.data();
}

size_t Workspace::size_bytes() const {
  size_t total_bytes = 0;
  for (const ReusableBuffer& buffer : scratch_) {
    total_bytes += buffer.size_bytes();
  }
  for (const auto& [name, buffer] : buffers_) {
    total_bytes += buffer.size_bytes();
  }
  return total_bytes;
}

void Workspace::Trim(size_t max_bytes) {
  if (size_bytes() <= max_bytes) {
    return;
  }
  for (ReusableBuffer& buffer : scratch_) {
    buffer.Free();
  }
  for (auto& [name, buffer] : buffers_) {
    buffer.Free();
  }
}

}  // namespace attention
