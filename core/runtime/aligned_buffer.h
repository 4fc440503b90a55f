// Memory that begins at a cache line.
#pragma once

#include <cstddef>
#include <memory>

namespace attention {

/// Owns uninitialised bytes, 64-byte aligned. Movable. Throws std::bad_alloc.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size_bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size_bytes() const { return size_bytes_; }

 private:
  struct Deleter {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Deleter> data_;
  size_t size_bytes_ = 0;
};

}  // namespace attention
