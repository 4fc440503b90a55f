// The small fields of a message, read without the rest: enough to answer a request that is refused.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "proto/codec/envelope_fields.h"

namespace attention {

/// Reads the integers and strings of the message itself into `message`; nested messages are
/// present, but empty, and payloads are absent. Reads no more than 1,000 fields and takes no more
/// than 4 KiB of them: returns false beyond that, and for a malformed message. `fields` are those
/// of the type.
bool ReadOutline(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                 google::protobuf::Message& message);

}  // namespace attention
