#include "server/services/open_inference/infer_stream_call.h"

#include <memory>
#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/arena_message.h"
#include "proto/codec/outline.h"
#include "server/services/open_inference/infer_reply.h"
#include "server/services/plan/plan_prefix.h"
#include "server/services/reply/attend_job.h"

namespace attention {

/// One request, until it is answered.
class InferStreamCall::Request final : public AttendSink,
                                       public std::enable_shared_from_this<Request> {
 public:
  Request(std::shared_ptr<InferStreamCall> call, int64_t number, const grpc::ByteBuffer& message,
          TimePoint arrival)
      : call_(std::move(call)), number_(number) {
    record_.rpc = "ModelStreamInfer";
    record_.arrival = arrival;
    record_.request_bytes = static_cast<int64_t>(message.Length());
  }

  void Begin(const grpc::ByteBuffer& message) {
    const absl::Status status = Contain("the request", [&] { return Admit(message); });
    if (!status.ok()) {
      Fail(status);
    }
  }

  // Refuses a request of which only the outline was read.
  void Refuse(const inference::ModelInferRequest& outline, const absl::Status& status) {
    ContainVoid("the request", [&] {
      const PlanTerms terms;
      Identify(outline, call_->infer_.LimitsOf(call_->message_metadata().caller, terms), identity_)
          .IgnoreError();
      RecordModel();
    }).IgnoreError();
    Fail(status);
  }

  bool is_cancelled() const override { return call_->is_over(); }
  std::function<void()> GiveUp() override { return call_->GiveUp(); }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override {
    Record(stats, record_);
    plan_.answer.cached_tokens = stats.cached_tokens;
    if (!status.ok()) {
      Fail(status);
      return;
    }
    const absl::Status sent = ContainVoid("sending the answer", [&] {
      if (NeedsCopies(plan_.answer)) {
        call_->RunOnSideThread(reply->size_bytes(),
                               [self = shared_from_this(), reply] { self->SendOrFail(*reply); });
      } else {
        SendReply(*reply);
      }
    });
    if (!sent.ok()) {
      Fail(sent);
    }
  }

 private:
  absl::StatusOr<InferPlan> PlanOnAccount(const grpc::ByteBuffer& message,
                                          const CallMetadata& metadata) {
    PlanAccount account(call_->environment_.executor, call_->AsPlanCaller(metadata.request_class));
    const PlanTerms terms = account.terms();
    RETURN_IF_ERROR(terms.Check());
    ASSIGN_OR_RETURN(InferPlan plan,
                     ReadInfer(message, call_->infer_.LimitsOf(metadata.caller, terms), identity_));
    RETURN_IF_ERROR(
        PlanPrefixes(call_->environment_.sessions, metadata.request_class, terms, plan.attend));
    return plan;
  }

  // Admits the request. After a success the dispatcher may already have answered it.
  absl::Status Admit(const grpc::ByteBuffer& message) {
    CallMetadata metadata = call_->message_metadata();
    absl::StatusOr<InferPlan> plan = PlanOnAccount(message, metadata);
    RecordModel();
    RETURN_IF_ERROR(plan.status());
    plan_ = *std::move(plan);
    TimePoint deadline = call_->deadline();
    ApplyParameters(plan_.parameters, record_.arrival, metadata, deadline);
    auto job = std::make_shared<AttendJob>(std::move(plan_.attend),
                                           JobOrigin{.size_bytes = record_.request_bytes,
                                                     .request_class = metadata.request_class,
                                                     .arrival = record_.arrival,
                                                     .deadline = deadline},
                                           shared_from_this());
    record_.tokens = job->description().tokens;
    return call_->environment_.executor.Submit(std::move(job));
  }

  void RecordModel() {
    record_.model = identity_.model;
    record_.model_version = identity_.version;
  }

  void SendReply(const AttendReply& reply) {
    const bool has_empty_final = plan_.parameters.wants_empty_final_response;
    absl::StatusOr<grpc::ByteBuffer> message =
        EncodeStreamInfer(plan_.answer, reply, /*is_final=*/!has_empty_final);
    if (!message.ok()) {
      Fail(message.status());
      return;
    }
    std::vector<grpc::ByteBuffer> messages = {*std::move(message)};
    if (has_empty_final) {
      messages.push_back(EncodeStreamEnd(plan_.answer));
    }
    call_->Put(number_, {std::move(messages), std::move(record_)});
  }

  void SendOrFail(const AttendReply& reply) {
    const absl::Status sent = ContainVoid("sending the answer", [&] { SendReply(reply); });
    if (!sent.ok()) {
      Fail(sent);
    }
  }

  // Answers with an error; without memory for the message the stream ends.
  void Fail(const absl::Status& status) noexcept {
    std::vector<grpc::ByteBuffer> messages;
    ContainVoid("sending an error", [&] {
      messages.push_back(EncodeStreamError(identity_.id, status));
    }).IgnoreError();
    record_.status = status;
    call_->Put(number_, {std::move(messages), std::move(record_)});
  }

  const std::shared_ptr<InferStreamCall> call_;
  const int64_t number_;
  RequestRecord record_;
  InferIdentity identity_;
  InferPlan plan_;
};

void InferStreamCall::Post(const InferEnvironment& environment) {
  static const int method = OpenInferenceAsyncService::IndexOf("ModelStreamInfer");
  const auto call = std::make_shared<InferStreamCall>(environment);
  call->Await(environment.service, method);
}

bool InferStreamCall::ErrorsEndTheStream() const {
  const auto found = context_.client_metadata().find("triton_grpc_error");
  return found != context_.client_metadata().end() && found->second == "true";
}

std::shared_ptr<InferStreamCall::Request> InferStreamCall::MakeRequest(
    const grpc::ByteBuffer& message, TimePoint arrival) {
  std::shared_ptr<Request> request;
  const absl::Status made = ContainVoid("the request", [&] {
    const auto self = std::static_pointer_cast<InferStreamCall>(shared_from_this());
    request = std::make_shared<Request>(self, num_requests_, message, arrival);
    MutexLock lock(mutex_);
    ready_.emplace(num_requests_, std::nullopt);
    ++num_requests_;
  });
  if (!made.ok()) {
    RefuseMessage(message, arrival, made);
    return nullptr;
  }
  return request;
}

void InferStreamCall::OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) {
  if (const std::shared_ptr<Request> request = MakeRequest(message, arrival); request != nullptr) {
    request->Begin(message);
  }
}

bool InferStreamCall::OnMessageWithoutRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                                           const absl::Status& status) {
  std::unique_ptr<ArenaMessage<inference::ModelInferRequest>> made;
  const absl::Status read = Contain("the request", [&] {
    made = std::make_unique<ArenaMessage<inference::ModelInferRequest>>();
    inference::ModelInferRequest& outline = **made;
    return ReadOutline(message, EnvelopeFieldsOf<inference::ModelInferRequest>(), outline)
               ? absl::OkStatus()
               : status;
  });
  if (!read.ok()) {
    return false;
  }
  if (const std::shared_ptr<Request> request = MakeRequest(message, arrival); request != nullptr) {
    request->Refuse(**made, status);
  }
  return true;
}

void InferStreamCall::Put(int64_t number, Answer answer) {
  {
    MutexLock lock(mutex_);
    ready_.find(number)->second = std::move(answer);
    if (is_sending_) {
      return;  // the sending thread takes it
    }
    is_sending_ = true;
  }
  while (std::optional<Answer> next = TakeNext()) {
    SendOne(*std::move(next));
  }
}

std::optional<InferStreamCall::Answer> InferStreamCall::TakeNext() {
  MutexLock lock(mutex_);
  const auto found = ready_.find(next_);
  if (found == ready_.end() || !found->second.has_value()) {
    is_sending_ = false;
    return std::nullopt;
  }
  Answer answer = *std::move(found->second);
  ready_.erase(found);
  ++next_;
  return answer;
}

void InferStreamCall::SendOne(Answer answer) {
  const absl::Status status = answer.record.status;
  if (!has_failed_ && (answer.messages.empty() || (!status.ok() && ErrorsEndTheStream()))) {
    has_failed_ = true;
    Close(status);
  }
  if (has_failed_) {
    if (answer.record.status.ok()) {
      answer.record.status = Contain("ending the request", [] {
        return absl::CancelledError("the stream had ended with the error of an earlier request");
      });
    }
    EndWithoutMessage(std::move(answer.record));
    return;
  }
  for (size_t i = 0; i + 1 < answer.messages.size(); ++i) {
    Send(answer.messages[i]);
  }
  Send(answer.messages.back(), std::move(answer.record));
}

}  // namespace attention
