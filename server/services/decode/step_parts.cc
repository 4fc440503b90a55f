#include "server/services/decode/step_parts.h"

#include <optional>
#include <vector>

#include "server/services/reply/encode_reply.h"
#include "server/services/reply/reply_parts.h"
#include "server/services/reply/top_logits.h"

namespace attention {
namespace {

std::vector<ReplyPart> PartsOf(const v1::DecodeStep& step, const AttendReply& reply) {
  std::vector<ReplyPart> parts;
  TokenRange tokens;
  while (const std::optional<TokenRange> next = NextTokens(reply, tokens)) {
    tokens = *next;
    parts.push_back({.tokens = tokens, .rows = {}, .scores = {}});
  }
  if (step.top_logits() > 0 || step.no_output()) {
    return parts;
  }
  for (const RowRange& rows : SplitRows(reply, {0, 0, reply.OutputRows(0)})) {
    parts.push_back({.tokens = {}, .rows = rows, .scores = {}});
  }
  ScoreRange scores;
  while (const std::optional<ScoreRange> next = NextScores(reply, scores)) {
    scores = *next;
    parts.push_back({.tokens = {}, .rows = {}, .scores = scores});
  }
  return parts;
}

// Returns whether all parts fit one message.
bool FitOneMessage(const std::vector<ReplyPart>& parts, const AttendReply& reply) {
  return reply.size_bytes() + std::ssize(parts) * kPartFieldsBytes <= kRowBlockBytes;
}

}  // namespace

void WriteStepParts(const DecodeAction& action, const AttendReply& reply,
                    v1::DecodeResponse& response, Encoder& encoder,
                    absl::FunctionRef<void(const grpc::ByteBuffer&)> send) {
  const v1::DecodeRequest& request = action.request.message;
  if (const int count = request.step().top_logits(); count > 0) {
    std::vector<float> logits(reply.width());
    Convert(reply.dtype(), reply.Output(0), Dtype::kF32, logits.data(), reply.width());
    v1::TopLogits& top = *response.mutable_result()->mutable_top_logits();
    WriteTopLogits(logits, count, top);
    NameTokens(action.session->plan().target.model->tokenizer(), top);
  }
  const std::vector<ReplyPart> parts = PartsOf(request.step(), reply);
  if (request.step().join_parts() && FitOneMessage(parts, reply)) {
    for (const ReplyPart& part : parts) {
      WritePart(reply, part, encoder, *response.add_parts());
    }
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 == parts.size()) {
      WritePart(reply, parts[i], encoder, *response.mutable_part());
      return;
    }
    v1::DecodeResponse earlier;
    Encoder own;
    earlier.set_id(request.id());
    earlier.set_sequence(request.sequence());
    WritePart(reply, parts[i], own, *earlier.mutable_part());
    send(own.Encode(earlier));
  }
}

}  // namespace attention
