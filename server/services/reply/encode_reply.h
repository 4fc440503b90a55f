// The messages of an answer, which refer to its memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "server/scheduling/job.h"
#include "server/services/reply/attend_reply.h"
#include "server/services/reply/reply_parts.h"

namespace attention {

/// The scheduler's account, without what it does not know.
v1::Summary ToWire(const BatchStats& stats);

/// Messages may be encoded while other rows are still being written. REQUIRES, of all that take a
/// reply: Allocate was called, and the rows are final.
grpc::ByteBuffer EncodeResponse(const AttendReply& reply, const v1::Summary& summary);
grpc::ByteBuffer EncodePart(const AttendReply& reply, const ReplyPart& part);
/// Writes a part that is not empty.
void WritePart(const AttendReply& reply, const ReplyPart& part, Encoder& encoder,
               v1::AttendStreamResponse& response);

/// The last message of a stream.
grpc::ByteBuffer EncodeSummary(const v1::Summary& summary);

}  // namespace attention
