#include "client/load/decode_lane.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/request_codec.h"
#include "proto/codec/envelope.h"
#include "proto/codec/status.h"

namespace attention {

DecodeLane::DecodeLane(const std::shared_ptr<grpc::Channel>& channel, const EncodedSession& session,
                       grpc::CompletionQueue& queue)
    : stub_(channel), session_(session), queue_(queue) {}

void DecodeLane::Start(std::chrono::system_clock::time_point deadline) {
  stream_.reset();
  context_.emplace();
  context_->set_deadline(deadline);
  num_sent_ = 0;
  is_stopped_ = keep_ = false;
  messages_.clear();
  failure_ = absl::OkStatus();
  session_started_ = action_started_ = Clock::now();
  step_ = Step::kConnect;
  stream_ = stub_.PrepareCall(&*context_, kDecodeMethod, &queue_);
  stream_->StartCall(this);
}

void DecodeLane::Go(bool stop, bool keep) {
  keep_ = keep;
  if (stop) {
    is_stopped_ = true;
    step_ = Step::kEndRequests;
    stream_->WritesDone(this);
    return;
  }
  messages_.clear();
  answered_bytes_ = 0;
  action_started_ = Clock::now();
  const auto& steps = session_.different_steps;
  Write(num_sent_ == 1 ? session_.prefill : steps[(num_sent_ - 2) % std::ssize(steps)]);
}

DecodeLane::Event DecodeLane::Advance(bool ok) {
  switch (step_) {
    case Step::kConnect:
    case Step::kWrite:
      if (!ok) {
        break;
      }
      if (step_ == Step::kConnect) {
        Write(session_.open);
      } else {
        Read();
      }
      return Event::kNone;
    case Step::kRead:
      if (!ok) {
        break;
      }
      return TakeMessage();
    case Step::kEndRequests:
      step_ = Step::kLastRead;
      message_.Clear();
      stream_->Read(&message_, this);
      return Event::kNone;
    case Step::kLastRead:
      if (ok) {
        Fail(MalformedAnswer("a message after the last reply"));
        return Event::kNone;
      }
      break;
    case Step::kFinish:
      TakeStatus();
      return Event::kEnded;
  }
  Finish();
  return Event::kNone;
}

void DecodeLane::Write(const grpc::ByteBuffer& bytes) {
  ++num_sent_;
  step_ = Step::kWrite;
  stream_->Write(bytes, this);
}

void DecodeLane::Read() {
  step_ = Step::kRead;
  message_.Clear();
  stream_->Read(&message_, this);
}

DecodeLane::Event DecodeLane::TakeMessage() {
  answered_bytes_ += static_cast<int64_t>(message_.Length());
  v1::DecodeResponse response;
  const absl::Status decoded =
      DecodeEnvelope(message_, EnvelopeFieldsOf<v1::DecodeResponse>(), response);
  if (!decoded.ok()) {
    Fail(MalformedAnswer(std::string(decoded.message())));
    return Event::kNone;
  }
  if (keep_) {
    messages_.push_back(message_);
  }
  if (!response.has_result()) {
    Read();
    return Event::kNone;
  }
  result_ = std::move(*response.mutable_result());
  if (result_.code() != 0) {
    Fail(absl::Status(static_cast<absl::StatusCode>(result_.code()), result_.message()));
    return Event::kNone;
  }
  return num_sent_ == 1 ? Event::kOpened : num_sent_ == 2 ? Event::kPrefilled : Event::kStepped;
}

void DecodeLane::Fail(const absl::Status& status) {
  failure_ = status;
  context_->TryCancel();
  Finish();
}

void DecodeLane::Finish() {
  step_ = Step::kFinish;
  stream_->Finish(&status_, this);
}

void DecodeLane::TakeStatus() {
  if (!failure_.ok()) {
    return;  // the call was cancelled because of this failure
  }
  failure_ = !status_.ok() || is_stopped_
                 ? ToAbslStatus(status_)
                 : MalformedAnswer("the stream ended before its last answer");
}

}  // namespace attention
