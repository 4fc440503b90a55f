// The maximum sizes of messages that are no requests for attention.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/inflate.h"
#include "server/security/access.h"

namespace attention {

/// The maximum for a call that needs no token: its message has one name.
inline constexpr int64_t kMaxOpenMessageBytes = int64_t{4} << 10;
/// The maximum for a call about models or administration: its message has names and parameters.
inline constexpr int64_t kMaxNamesMessageBytes = int64_t{64} << 10;

inline int64_t MaxMessageBytes(Right right) {
  return right == Right::kNone ? kMaxOpenMessageBytes : kMaxNamesMessageBytes;
}

/// Parses a message. RESOURCE_EXHAUSTED when `wire` has more than `max_bytes`, compressed or not,
/// before any of it is parsed; INVALID_ARGUMENT when it is no such message.
template <typename Request>
absl::Status ParseSmallMessage(grpc::ByteBuffer& wire, int64_t max_bytes, Request& request) {
  const std::string type(Request::descriptor()->full_name());
  if (static_cast<int64_t>(wire.Length()) > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("expected a message ", type, " of at most ",
                                                     max_bytes, " bytes, found ", wire.Length()));
  }
  if (IsCompressed(wire)) {
    absl::StatusOr<grpc::ByteBuffer> inflated = Inflate(wire, {max_bytes});
    if (!inflated.ok()) {
      return inflated.status();
    }
    wire = *std::move(inflated);
  }
  const size_t bytes = wire.Length();  // Deserialize empties it
  if (!grpc::SerializationTraits<Request>::Deserialize(&wire, &request).ok()) {
    return absl::InvalidArgumentError(absl::StrCat("expected a message ", type, ", found ", bytes,
                                                   " bytes that cannot be parsed"));
  }
  return absl::OkStatus();
}

/// Parses a message of a call. Errors of CheckEncoding and ParseSmallMessage.
template <typename Request>
absl::Status ReadSmallMessage(grpc::ServerContext& context, grpc::ByteBuffer& wire,
                              int64_t max_bytes, Request& request) {
  const absl::Status status = CheckEncoding(context, wire);
  return status.ok() ? ParseSmallMessage(wire, max_bytes, request) : status;
}

}  // namespace attention
