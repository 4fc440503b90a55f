#include "client/lib/decode_stream.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/answer_codec.h"
#include "client/lib/blocking_call.h"
#include "client/lib/channel.h"
#include "client/lib/request_codec.h"
#include "client/lib/stream_assembler.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {
namespace {

SessionState StateOf(const v1::DecodeResult& result) { return {result.length(), result.usage()}; }

/// Puts the parts of a step's answer together.
class StepAssembler {
 public:
  /// INVALID_ARGUMENT for an input that does not hold together.
  static absl::StatusOr<StepAssembler> Create(const StepRequest& step) {
    AttendRequest request;
    request.input = step.input;
    request.model_output = step.model_output;
    StepAssembler result;
    result.has_output_ = step.top_logits == 0 && !step.no_output;
    ASSIGN_OR_RETURN(result.assembler_, StreamAssembler::Create(request));
    return result;
  }

  absl::Status Add(const StreamMessage& message) {
    if (has_output_) {
      return assembler_->Add(message);
    }
    if (const auto* block = std::get_if<TokensBlock>(&message)) {
      tokens_.MergeFrom(block->tokens);
      return absl::OkStatus();
    }
    return absl::InternalError("malformed answer: rows for a step without output");
  }

  absl::StatusOr<AttendResult> Finish(const v1::Summary& summary) {
    AttendResult result;
    if (has_output_) {
      RETURN_IF_ERROR(assembler_->Finish(result));
    } else if (tokens_.ids_size() > 0) {
      result.tokens.push_back(std::move(tokens_));
    }
    ReadSummary(summary, result);
    return result;
  }

 private:
  bool has_output_ = true;
  std::optional<StreamAssembler> assembler_;
  v1::TokenizedText tokens_;  // without an output
};

}  // namespace

struct DecodeStream::State {
  State(const DecodeStreamOptions& stream_options, const std::shared_ptr<grpc::Channel>& channel)
      : options(stream_options),
        stub(channel),
        duplex(stub, kDecodeMethod, stream_options.lifetime) {}

  /// Ends the session with an error.
  absl::Status Break(const absl::Status& status) {
    broken.Update(status);
    duplex.Cancel();
    return broken;
  }

  /// Ends the session with the status of its stream, and names the server in the error.
  absl::Status BreakWithStatus() {
    absl::Status status = duplex.Finish(deadline);
    if (status.ok()) {
      status = absl::InternalError("malformed answer: the stream ended before its last answer");
    } else if (duplex.timed_out()) {
      status = absl::DeadlineExceededError(absl::StrCat("server ", options.connection.server,
                                                        ": no answer within ",
                                                        absl::FormatDuration(options.timeout)));
    } else if (status.code() == absl::StatusCode::kUnavailable) {
      status = absl::UnavailableError(
          absl::StrCat("server ", options.connection.server, ": ", std::string(status.message())));
    }
    broken.Update(status);
    return broken;
  }

  absl::Status Send(const grpc::ByteBuffer& request) {
    deadline = absl::Now() + options.timeout;
    return duplex.Write(request, deadline) ? absl::OkStatus() : BreakWithStatus();
  }

  absl::StatusOr<SessionMessage> Receive() {
    grpc::ByteBuffer bytes;
    if (!duplex.Read(bytes, deadline)) {
      return BreakWithStatus();
    }
    absl::StatusOr<SessionMessage> message = DecodeSessionMessage(bytes);
    if (!message.ok()) {
      return Break(message.status());
    }
    if (message->id != last_id) {
      return Break(absl::InternalError(absl::StrCat("malformed answer: reply to unknown action id ",
                                                    message->id, ", expected ", last_id)));
    }
    return message;
  }

  /// Sends an action and reads the messages that answer it; calls `on_part` with each part.
  template <typename OnPart>
  absl::StatusOr<v1::DecodeResult> Act(const grpc::ByteBuffer& request, OnPart on_part) {
    RETURN_IF_ERROR(broken);
    ++last_id;
    RETURN_IF_ERROR(Send(request));
    while (true) {
      ASSIGN_OR_RETURN(const SessionMessage message, Receive());
      if (message.part.has_value()) {
        if (const absl::Status status = on_part(*message.part); !status.ok()) {
          return Break(status);
        }
      }
      if (message.result.has_value()) {
        if (message.result->code() != 0) {
          return absl::Status(static_cast<absl::StatusCode>(message.result->code()),
                              message.result->message());
        }
        return *message.result;
      }
    }
  }

  absl::StatusOr<v1::DecodeResult> ActWithoutParts(v1::DecodeRequest& request) {
    request.set_id(last_id + 1);
    return Act(Encoder().Encode(request), [](const StreamMessage&) {
      return absl::InternalError("malformed answer: rows that were not requested");
    });
  }

  absl::StatusOr<SessionState> ActForState(v1::DecodeRequest& request) {
    ASSIGN_OR_RETURN(const v1::DecodeResult result, ActWithoutParts(request));
    return StateOf(result);
  }

  const DecodeStreamOptions options;
  grpc::GenericStub stub;
  BlockingStream duplex;
  absl::Time deadline;   // of the action under way
  uint64_t last_id = 0;  // of the action under way, or the last one
  absl::Status broken;
  v1::DecodeResult opened;
};

DecodeStream::DecodeStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
DecodeStream::~DecodeStream() = default;

absl::StatusOr<std::unique_ptr<DecodeStream>> DecodeStream::Open(const DecodeStreamOptions& options,
                                                                 const v1::OpenSession& open) {
  RETURN_IF_ERROR(CheckTimeout(options.timeout, "timeout"));
  RETURN_IF_ERROR(CheckTimeout(options.lifetime, "lifetime"));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options.connection));
  auto state = std::make_unique<State>(options, channel);
  v1::DecodeRequest request;
  *request.mutable_open() = open;
  ASSIGN_OR_RETURN(state->opened, state->ActWithoutParts(request));
  return std::unique_ptr<DecodeStream>(new DecodeStream(std::move(state)));
}

const v1::DecodeResult& DecodeStream::opened() const { return state_->opened; }

absl::StatusOr<StepResult> DecodeStream::Step(const StepRequest& step, int64_t sequence) {
  ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes,
                   EncodeStep({.id = state_->last_id + 1, .sequence = sequence}, step));
  ASSIGN_OR_RETURN(StepAssembler assembler, StepAssembler::Create(step));
  ASSIGN_OR_RETURN(v1::DecodeResult result, state_->Act(bytes, [&](const StreamMessage& part) {
    return assembler.Add(part);
  }));
  StepResult answer;
  absl::StatusOr<AttendResult> assembled = assembler.Finish(result.summary());
  if (!assembled.ok()) {
    return state_->Break(assembled.status());
  }
  answer.answer = *std::move(assembled);
  answer.session = StateOf(result);
  if (result.has_top_logits()) {
    answer.top_logits = std::move(*result.mutable_top_logits());
  }
  return answer;
}

absl::StatusOr<SessionState> DecodeStream::Fork(int64_t sequence, int64_t new_sequence) {
  v1::DecodeRequest request;
  request.set_sequence(sequence);
  request.mutable_fork()->set_new_sequence(new_sequence);
  return state_->ActForState(request);
}

absl::StatusOr<SessionState> DecodeStream::Truncate(int64_t sequence, int64_t length) {
  v1::DecodeRequest request;
  request.set_sequence(sequence);
  request.mutable_truncate()->set_length(length);
  return state_->ActForState(request);
}

absl::StatusOr<SessionState> DecodeStream::Release(int64_t sequence) {
  v1::DecodeRequest request;
  request.set_sequence(sequence);
  request.mutable_release();
  return state_->ActForState(request);
}

absl::Status DecodeStream::Close() {
  RETURN_IF_ERROR(state_->broken);
  state_->deadline = absl::Now() + state_->options.timeout;
  state_->duplex.EndRequests(state_->deadline);
  grpc::ByteBuffer bytes;
  if (state_->duplex.Read(bytes, state_->deadline)) {
    return state_->Break(absl::InternalError("malformed answer: a message after the last reply"));
  }
  const absl::Status status = state_->duplex.Finish(state_->deadline);
  state_->broken = absl::FailedPreconditionError("the session was closed");
  return status;
}

}  // namespace attention
