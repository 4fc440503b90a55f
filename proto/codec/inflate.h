// Compressed messages (grpc-encoding gzip and deflate). gRPC would inflate a whole message before
// its size could be limited. Listeners therefore have gRPC deliver compressed messages unchanged
// (GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION), and this file inflates them up to a bound.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention {

/// Returns UNIMPLEMENTED for a message that is marked as compressed, but in no encoding that gRPC
/// knows: its bytes would be parsed as if they were the message. `wire` is the message that
/// `context` received last.
absl::Status CheckEncoding(grpc::ServerContext& context, const grpc::ByteBuffer& wire);

/// Returns whether `wire` is a message that its sender has compressed, in gzip or deflate.
bool IsCompressed(const grpc::ByteBuffer& wire);

/// Returns the maximum inflated size of a compressed message, by its compressed size.
int64_t MaxInflatedBytes(const grpc::ByteBuffer& wire);

struct InflateLimit {
  /// The maximum inflated size.
  int64_t max_bytes = 0;
  /// The flag that sets the maximum, for errors: "--max-message-bytes"; empty: none.
  std::string flag = {};
  /// The inflation calls this with the size of each block of memory before it allocates the block;
  /// an error ends it. May be null.
  std::function<absl::Status(int64_t bytes)> begin_block = nullptr;
};

/// Inflates a message. The memory exceeds max_bytes by at most one block. RESOURCE_EXHAUSTED for a
/// larger message; INVALID_ARGUMENT for bytes that do not match their encoding. REQUIRES:
/// IsCompressed(wire).
absl::StatusOr<grpc::ByteBuffer> Inflate(const grpc::ByteBuffer& wire, const InflateLimit& limit);

}  // namespace attention
