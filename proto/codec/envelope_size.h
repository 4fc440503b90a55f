// The size of a message's envelope: the bytes that protobuf parses, without payloads.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "proto/codec/envelope_fields.h"

namespace attention {

/// A byte of a text counts as this many bytes: to tokenize one may take more than a microsecond.
inline constexpr int64_t kTextWeight = 64;

/// Returns whether `wire` has more than `max_bytes` besides its payloads, where the bytes of
/// repeated strings, which are texts to tokenize, count kTextWeight times. Reads little more than
/// `max_bytes` bytes. A malformed message ends where the error is found.
bool HasLargeEnvelope(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                      int64_t max_bytes);

}  // namespace attention
