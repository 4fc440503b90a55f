// The size of a message's envelope: the bytes that protobuf parses, without payloads.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "proto/codec/payload_fields.h"

namespace attention {

/// Returns whether `wire` has more than `max_bytes` besides its payloads. Reads little more than
/// `max_bytes` bytes. A malformed message ends where the error is found.
bool HasLargeEnvelope(const grpc::ByteBuffer& wire, const PayloadFields& fields, int64_t max_bytes);

}  // namespace attention
