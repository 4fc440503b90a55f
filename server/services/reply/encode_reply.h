// The messages of an answer, which refer to its memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "server/scheduling/batch_stats.h"
#include "server/services/reply/attend_reply.h"
#include "server/services/reply/reply_parts.h"

namespace attention {

/// Returns a summary with the scheduler's measurements. The call sets receive_ns and total_ns.
v1::Summary ToWire(const BatchStats& stats);

/// Functions that encode messages, which may run while other rows are still being written. Those
/// with a reply REQUIRE that Allocate was called, and that the rows are final.
grpc::ByteBuffer EncodeResponse(const AttendReply& reply, const v1::Summary& summary);
grpc::ByteBuffer EncodePart(const AttendReply& reply, const ReplyPart& part);
/// Writes a part that is not empty.
void WritePart(const AttendReply& reply, const ReplyPart& part, Encoder& encoder,
               v1::AttendStreamResponse& response);

/// Returns the last message of a stream.
grpc::ByteBuffer EncodeSummary(const v1::Summary& summary);

}  // namespace attention
