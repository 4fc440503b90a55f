// The answers of DecodeCall.
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "core/runtime/presented_status.h"
#include "server/scheduling/refusal.h"
#include "server/services/decode/decode_call.h"
#include "server/services/decode/step_parts.h"
#include "server/services/reply/encode_reply.h"

namespace attention {
namespace {

// Records the model of the session, so that its actions do not count as attention without a model.
void RecordModel(DecodeAction& action) {
  if (action.session == nullptr || action.session->plan().target.model == nullptr) {
    return;
  }
  const Model& model = *action.session->plan().target.model;
  action.record.model = model.name();
  action.record.model_version = model.info().version;
}

}  // namespace

void DecodeCall::OnStepDone(const ActionPointer& action, const AttendReply& reply,
                            const absl::Status& status, const BatchStats& stats) {
  const EndDelay delay(*this);
  RequestRecord& record = action->record;
  Record(stats, record);
  const int64_t number = action->request.message.sequence();
  v1::DecodeResponse response;
  Encoder encoder;
  bool is_built = false;
  // A step that cannot be answered has failed, and leaves nothing behind.
  const absl::Status end = Contain("answering the step", [&] {
    v1::Summary& summary = *response.mutable_result()->mutable_summary();
    summary = ToWire(stats);
    summary.set_total_ns(Nanoseconds(std::chrono::steady_clock::now() - action->record.arrival));
    if (status.ok()) {
      WriteStepParts(*action, reply, response, encoder,
                     [this](const grpc::ByteBuffer& message) { Send(message); });
    }
    is_built = true;
    return status;
  });
  session_.EndStep(number, end.ok(), action->tokens);
  if (is_built) {
    Answer(action, end, response, encoder);
  } else {
    Answer(action, end);  // protobuf cannot encode a message in which an allocation failed
  }
  Proceed(number);
}

void DecodeCall::Answer(const ActionPointer& action, const absl::Status& status) {
  v1::DecodeResponse response;
  Encoder encoder;
  Answer(action, status, response, encoder);
}

void DecodeCall::Answer(const ActionPointer& action, const absl::Status& status,
                        v1::DecodeResponse& response, Encoder& encoder) {
  const absl::StatusOr<grpc::ByteBuffer> message = Contain("answering the action", [&] {
    RecordModel(*action);
    return EncodeResult(*action, status, response, encoder);
  });
  if (message.ok()) {
    action->record.status = status;
    Send(*message, std::move(action->record));
  } else {
    EndUnanswered(std::move(action->record), message.status());
  }
}

absl::StatusOr<grpc::ByteBuffer> DecodeCall::EncodeResult(const DecodeAction& action,
                                                          const absl::Status& status,
                                                          v1::DecodeResponse& response,
                                                          Encoder& encoder) {
  const v1::DecodeRequest& request = action.request.message;
  response.set_id(request.id());
  response.set_sequence(request.sequence());
  v1::DecodeResult& result = *response.mutable_result();
  result.set_code(static_cast<int>(status.code()));
  result.set_message(std::string(Presented(status).message()));
  if (const std::optional<Refusal> refusal = RefusalOf(status)) {
    result.set_retry_after_ms(refusal->retry_after_ms);
  }
  session_.Describe(request.sequence(), result);
  return encoder.Encode(response);
}

void DecodeCall::EndUnanswered(RequestRecord record, const absl::Status& status) {
  record.status = status;
  EndWithoutMessage(std::move(record));
  Close(status);
}

}  // namespace attention
