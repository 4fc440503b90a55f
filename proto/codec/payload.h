// Tensor bytes of a received message, which stay in the transport slices.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/dtype.h"

namespace attention {

/// A received message as the transport's reference-counted slices. Immutable; thread-safe.
class ReceivedBytes {
 public:
  explicit ReceivedBytes(const grpc::ByteBuffer& wire) : ReceivedBytes(wire, {}) {}
  /// A message followed by bytes of other sources, whose positions continue those of the message.
  ReceivedBytes(const grpc::ByteBuffer& wire, std::vector<grpc::Slice> appended);

  size_t size_bytes() const { return size_bytes_; }
  /// Copies bytes. REQUIRES: offset + count <= size_bytes().
  void CopyTo(size_t offset, size_t count, void* target) const;

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<size_t> slice_begins_;  // offset of each slice in the message
  size_t size_bytes_ = 0;
};

/// One tensor's bytes within a received message, which it keeps alive. Copyable, cheap;
/// thread-safe.
class Payload {
 public:
  Payload() = default;
  Payload(std::shared_ptr<const ReceivedBytes> message, size_t offset, size_t size_bytes)
      : message_(std::move(message)), offset_(offset), size_bytes_(size_bytes) {}

  size_t size_bytes() const { return size_bytes_; }

  /// Copies `count` bytes from `first_byte` on. REQUIRES: first_byte + count <= size_bytes().
  void CopyTo(size_t first_byte, size_t count, void* target) const;

  /// Copies elements [first, first + count) of `source` to elements of `target` in one pass over
  /// memory. REQUIRES: (first + count) * SizeOf(source) <= size_bytes().
  struct Elements {
    int64_t first = 0;
    int64_t count = 0;
  };
  void ConvertTo(Dtype source, Elements elements, Dtype target_dtype, void* target) const;

 private:
  std::shared_ptr<const ReceivedBytes> message_;
  size_t offset_ = 0;
  size_t size_bytes_ = 0;
};

}  // namespace attention
