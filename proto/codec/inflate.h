// Compressed messages (grpc-encoding gzip and deflate). gRPC would inflate a message whole before
// anybody could say how large it may become; so listeners have it deliver messages as they came
// (GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION), and they are inflated here, up to a bound.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention {

/// Whether `wire` is a message as its sender has compressed it.
bool IsCompressed(const grpc::ByteBuffer& wire);

/// What a compressed message can have at most, as far as its size tells.
int64_t MaxInflatedBytes(const grpc::ByteBuffer& wire);

struct InflateLimit {
  /// Of the message.
  int64_t max_bytes = 0;
  /// What sets them, for errors: "--max-message-bytes"; empty: nothing does.
  std::string flag = {};
  /// Asked before each block of memory is taken, for so many bytes; an error is the result. Null:
  /// nobody is.
  std::function<absl::Status(int64_t bytes)> begin_block = nullptr;
};

/// The message that the sender has compressed. Memory is at most a block more than max_bytes, and
/// one that has more is RESOURCE_EXHAUSTED; INVALID_ARGUMENT for bytes that are not what their
/// encoding says. REQUIRES: IsCompressed(wire).
absl::StatusOr<grpc::ByteBuffer> Inflate(const grpc::ByteBuffer& wire, const InflateLimit& limit);

}  // namespace attention
