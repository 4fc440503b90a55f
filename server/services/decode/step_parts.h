// The parts of the answer to a step of a session.
#pragma once

#include "absl/functional/function_ref.h"
#include "proto/codec/encode.h"
#include "server/services/decode/decode_action.h"
#include "server/services/reply/attend_reply.h"

namespace attention {

/// Writes the parts of the step's answer: its tokens, then its largest logits or its rows and
/// attention weights. All but the last are given to `send`, as messages of their own; the last, or
/// all of a step with join_parts that fit one message, are left in `response`, which refers to
/// `reply` until `encoder` has encoded it.
void WriteStepParts(const DecodeAction& action, const AttendReply& reply,
                    v1::DecodeResponse& response, Encoder& encoder,
                    absl::FunctionRef<void(const grpc::ByteBuffer&)> send);

}  // namespace attention
