#include "client/lib/decode_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/answer_codec.h"
#include "client/lib/blocking_call.h"
#include "client/lib/channel.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/request_codec.h"
#include "client/lib/retry_policy.h"
#include "client/lib/stream_assembler.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {
namespace {

SessionState StateOf(const v1::DecodeResult& result) { return {result.length(), result.usage()}; }

/// Joins the parts of the answer to a step; `open` opened the session. INVALID_ARGUMENT for an
/// input that does not hold together.
absl::StatusOr<StreamAssembler> AssemblerOf(const StepRequest& step, const v1::OpenSession& open) {
  AttendRequest request;
  request.options = open.options();
  request.input = step.input;
  request.model_output = step.model_output;
  return StreamAssembler::Create(request, step.top_logits == 0 && !step.no_output,
                                 /*has_options=*/open.resume_token().empty());
}

absl::Status StatusOf(const v1::DecodeResult& result) {
  absl::Status status(static_cast<absl::StatusCode>(result.code()), result.message());
  if (!status.ok() && result.retry_after_ms() > 0) {
    const std::string pushback = absl::StrCat(result.retry_after_ms());
    status.SetPayload(kPushback, absl::Cord(absl::string_view(pushback)));
  }
  return status;
}

/// Checks the largest logits, of which a step asked for `most`.
absl::Status CheckTopLogits(int64_t most, const v1::DecodeResult& result) {
  const int64_t found = result.top_logits().ids_size();
  const bool is_asked = most > 0;
  if (result.has_top_logits() != is_asked || (is_asked && found == 0) || found > most ||
      result.top_logits().logits_size() != found) {
    return MalformedAnswer("top_logits: expected ", is_asked ? absl::StrCat("1 to ", most) : "no",
                           " ids and as many logits, found ", found, " and ",
                           result.top_logits().logits_size());
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> FinishStep(StreamAssembler& assembler, int64_t top_logits,
                                      v1::DecodeResult& result) {
  StepResult step;
  RETURN_IF_ERROR(CheckTopLogits(top_logits, result));
  RETURN_IF_ERROR(assembler.Finish(step.answer));
  if (!result.has_summary()) {
    return NotSent("summary");
  }
  step.answer.summary = result.summary();
  step.session = StateOf(result);
  if (result.has_top_logits()) {
    step.top_logits = std::move(*result.mutable_top_logits());
  }
  return step;
}

}  // namespace

struct DecodeStream::State {
  /// A step under way.
  struct SentStep {
    StreamAssembler assembler;
    int64_t top_logits = 0;
    std::optional<absl::StatusOr<StepResult>> answer = {};
  };

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
      status = MalformedAnswer("the stream ended before its last answer");
    } else if (duplex.timed_out()) {
      status = absl::DeadlineExceededError(absl::StrCat("server ", options.connection.server,
                                                        ": no answer within ",
                                                        absl::FormatDuration(options.timeout)));
    } else if (absl::IsDeadlineExceeded(
                   status)) {  // the deadline of the call; those of actions time out
      status = absl::DeadlineExceededError(absl::StrCat(
          "server ", options.connection.server, ": the session has ended with its lifetime of ",
          absl::FormatDuration(options.lifetime)));
    } else {
      status = WithServer(status, options.connection);
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
    const std::optional<v1::DecodeResult>& result = message->result;
    const bool lacks_usage = result.has_value() && result->code() == 0 && !result->has_usage();
    return lacks_usage ? Break(NotSent("usage")) : std::move(message);
  }

  absl::Status BreakWithUnknownId(uint64_t expected, uint64_t found) {
    return Break(MalformedAnswer("id: expected that of an action under way (", expected,
                                 "), found ", found));
  }

  /// Checks that the session is open, and that no step is under way.
  absl::Status CheckIdle() const {
    RETURN_IF_ERROR(broken);
    return sent.empty()
               ? absl::OkStatus()
               : absl::FailedPreconditionError(absl::StrCat(
                     "action: expected no step under way (ReceiveSteps), found ", sent.size()));
  }

  /// Checks that the server would read a message of this size: a larger one ends the stream.
  absl::Status CheckSize(const grpc::ByteBuffer& request) const {
    const int64_t most = opened.max_message_bytes();
    return most <= 0 || static_cast<int64_t>(request.Length()) <= most
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(absl::StrCat(
                     "message of an action: expected at most ", most,
                     " bytes (the server's flag --max-message-bytes), found ", request.Length()));
  }

  /// Sends an action and reads the messages that answer it; calls `on_part` with each part.
  template <typename OnPart>
  absl::StatusOr<v1::DecodeResult> Act(const grpc::ByteBuffer& request, OnPart on_part) {
    RETURN_IF_ERROR(CheckIdle());
    RETURN_IF_ERROR(CheckSize(request));
    ++last_id;
    RETURN_IF_ERROR(Send(request));
    while (true) {
      ASSIGN_OR_RETURN(const SessionMessage message, Receive());
      if (message.id != last_id) {
        return BreakWithUnknownId(last_id, message.id);
      }
      for (const StreamMessage& part : message.parts) {
        if (const absl::Status status = on_part(part); !status.ok()) {
          return Break(status);
        }
      }
      if (message.result.has_value()) {
        RETURN_IF_ERROR(StatusOf(*message.result));
        return *message.result;
      }
    }
  }

  absl::StatusOr<v1::DecodeResult> ActWithoutParts(v1::DecodeRequest& request) {
    request.set_id(last_id + 1);
    return Act(Encoder().Encode(request), [](const StreamMessage&) {
      return MalformedAnswer("parts of an answer: expected none, found some");
    });
  }

  absl::StatusOr<SessionState> ActForState(v1::DecodeRequest& request) {
    ASSIGN_OR_RETURN(const v1::DecodeResult result, ActWithoutParts(request));
    return StateOf(result);
  }

  /// Takes a message that answers one of the `sent` steps, of which `num_open` have no answer yet.
  absl::Status TakeAnswer(SessionMessage message, size_t& num_open) {
    const uint64_t first_id = last_id + 1 - sent.size();
    const uint64_t index = message.id - first_id;  // huge for an earlier id
    if (index >= sent.size() || sent[index].answer.has_value()) {
      const auto open = std::find_if(sent.begin(), sent.end(),
                                     [](const SentStep& step) { return !step.answer.has_value(); });
      return BreakWithUnknownId(first_id + (open - sent.begin()), message.id);
    }
    SentStep& step = sent[index];
    for (const StreamMessage& part : message.parts) {
      if (const absl::Status status = step.assembler.Add(part); !status.ok()) {
        return Break(status);
      }
    }
    if (!message.result.has_value()) {
      return absl::OkStatus();
    }
    deadline = absl::Now() + options.timeout;
    --num_open;
    if (const absl::Status refused = StatusOf(*message.result); !refused.ok()) {
      step.answer = refused;
      return absl::OkStatus();
    }
    step.answer = FinishStep(step.assembler, step.top_logits, *message.result);
    return step.answer->ok() ? absl::OkStatus() : Break(step.answer->status());
  }

  const DecodeStreamOptions options;
  grpc::GenericStub stub;
  BlockingStream duplex;
  absl::Time deadline;   // of the action under way
  uint64_t last_id = 0;  // of the action under way, or the last one
  /// The steps under way; their ids end with `last_id`.
  std::vector<SentStep> sent;
  absl::Status broken;
  v1::OpenSession session;
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
  state->session = open;
  ASSIGN_OR_RETURN(state->opened, state->ActWithoutParts(request));
  return std::unique_ptr<DecodeStream>(new DecodeStream(std::move(state)));
}

const v1::DecodeResult& DecodeStream::opened() const { return state_->opened; }

const absl::Status& DecodeStream::status() const { return state_->broken; }

absl::StatusOr<StepResult> DecodeStream::Step(const StepRequest& step, int64_t sequence) {
  RETURN_IF_ERROR(state_->CheckIdle());
  RETURN_IF_ERROR(SendStep(step, sequence));
  return std::move(ReceiveSteps().back());
}

absl::Status DecodeStream::SendStep(const StepRequest& step, int64_t sequence) {
  ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes,
                   EncodeStep({.id = state_->last_id + 1, .sequence = sequence}, step));
  ASSIGN_OR_RETURN(StreamAssembler assembler, AssemblerOf(step, state_->session));
  RETURN_IF_ERROR(state_->broken);
  RETURN_IF_ERROR(state_->CheckSize(bytes));
  RETURN_IF_ERROR(state_->Send(bytes));
  ++state_->last_id;
  state_->sent.push_back({std::move(assembler), step.top_logits});
  return absl::OkStatus();
}

std::vector<absl::StatusOr<StepResult>> DecodeStream::ReceiveSteps() {
  absl::Status status = state_->broken;
  for (size_t num_open = state_->sent.size(); num_open > 0 && status.ok();) {
    absl::StatusOr<SessionMessage> message = state_->Receive();
    status = message.ok() ? state_->TakeAnswer(*std::move(message), num_open) : message.status();
  }
  std::vector<absl::StatusOr<StepResult>> answers;
  for (State::SentStep& step : state_->sent) {
    answers.push_back(step.answer.has_value() ? *std::move(step.answer)
                                              : absl::StatusOr<StepResult>(status));
  }
  state_->sent.clear();
  return answers;
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
  RETURN_IF_ERROR(state_->CheckIdle());
  state_->deadline = absl::Now() + state_->options.timeout;
  state_->duplex.EndRequests(state_->deadline);
  grpc::ByteBuffer bytes;
  if (state_->duplex.Read(bytes, state_->deadline)) {
    return state_->Break(MalformedAnswer("a message after the last reply"));
  }
  if (!state_->duplex.Finish(state_->deadline).ok()) {
    return state_->BreakWithStatus();
  }
  state_->broken = absl::FailedPreconditionError("the session was closed");
  return absl::OkStatus();
}

}  // namespace attention
