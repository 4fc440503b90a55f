// How much of a received message is envelope, which protobuf parses, and not payload.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "proto/codec/payload_fields.h"

namespace attention {

/// Whether `wire` has more than `max_bytes` beside its payloads. Looks at no more than about so
/// many bytes; what is no well-formed message ends where that shows.
bool HasLargeEnvelope(const grpc::ByteBuffer& wire, const PayloadFields& fields, int64_t max_bytes);

}  // namespace attention
