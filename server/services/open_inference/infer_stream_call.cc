#include "server/services/open_inference/infer_stream_call.h"

#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "server/services/attend_job.h"
#include "server/services/open_inference/infer_reply.h"

namespace attention {

/// One request, until it is answered.
class InferStreamCall::Request final : public AttendSink,
                                       public std::enable_shared_from_this<Request> {
 public:
  Request(std::shared_ptr<InferStreamCall> call, int64_t number)
      : call_(std::move(call)), number_(number) {
    record_.rpc = "ModelStreamInfer";
  }

  void Begin(const grpc::ByteBuffer& message, TimePoint arrival) {
    if (const absl::Status status = Admit(message, arrival); !status.ok()) {
      Fail(status);
    }
  }

  bool is_cancelled() const override { return call_->is_over(); }
  std::function<void()> GiveUp() override { return call_->GiveUp(); }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override {
    Record(stats, record_);
    if (!status.ok()) {
      Fail(status);
      return;
    }
    reply_ = reply;
    if (NeedsCopies(plan_.answer)) {
      alarm_.Set(call_->environment_.queue, std::chrono::system_clock::now(), on_encode_.Arm());
    } else {
      OnEncode(true);
    }
  }

 private:
  // After a success the dispatcher may already have answered the request.
  absl::Status Admit(const grpc::ByteBuffer& message, TimePoint arrival) {
    record_.arrival = arrival;
    record_.request_bytes = static_cast<int64_t>(message.Length());
    absl::StatusOr<InferPlan> plan =
        ReadInfer(message, call_->infer_.LimitsOf(call_->caller()), identity_);
    record_.model = identity_.model;
    record_.model_version = identity_.version;
    RETURN_IF_ERROR(plan.status());
    plan_ = *std::move(plan);
    CallMetadata metadata = call_->metadata();
    TimePoint deadline = call_->deadline();
    ApplyParameters(plan_.parameters, metadata, deadline);
    auto job = std::make_shared<AttendJob>(std::move(plan_.attend),
                                           JobOrigin{.size_bytes = record_.request_bytes,
                                                     .request_class = metadata.request_class,
                                                     .arrival = arrival,
                                                     .deadline = deadline},
                                           shared_from_this());
    record_.tokens = job->description().tokens;
    return call_->environment_.executor.Submit(std::move(job));
  }

  void OnEncode(bool) {
    const bool has_empty_final = plan_.parameters.wants_empty_final_response;
    absl::StatusOr<grpc::ByteBuffer> message =
        EncodeStreamInfer(plan_.answer, *reply_, /*is_final=*/!has_empty_final);
    reply_.reset();
    if (!message.ok()) {
      Fail(message.status());
      return;
    }
    Answer answer = {.messages = {*std::move(message)}, .record = std::move(record_)};
    if (has_empty_final) {
      answer.messages.push_back(EncodeStreamEnd(plan_.answer));
    }
    call_->Put(number_, std::move(answer));
  }

  void Fail(const absl::Status& status) {
    record_.status = status;
    call_->Put(number_, {.messages = {EncodeStreamError(identity_.id, status)},
                         .record = std::move(record_)});
  }

  const std::shared_ptr<InferStreamCall> call_;
  const int64_t number_;
  RequestRecord record_;
  InferIdentity identity_;
  InferPlan plan_;
  std::shared_ptr<const AttendReply> reply_;
  /// As InferCall's.
  grpc::Alarm alarm_;
  CallTag<Request> on_encode_{this, &Request::OnEncode};
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

void InferStreamCall::OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) {
  const auto self = std::static_pointer_cast<InferStreamCall>(shared_from_this());
  std::make_shared<Request>(self, num_requests_++)->Begin(message, arrival);
}

void InferStreamCall::Put(int64_t number, Answer answer) {
  {
    MutexLock lock(mutex_);
    ready_.emplace(number, std::move(answer));
    if (is_sending_) {
      return;  // who sends sees it
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
  if (found == ready_.end()) {
    is_sending_ = false;
    return std::nullopt;
  }
  Answer answer = std::move(found->second);
  ready_.erase(found);
  ++next_;
  return answer;
}

void InferStreamCall::SendOne(Answer answer) {
  const absl::Status status = answer.record.status;
  if (!has_failed_ && !status.ok() && ErrorsEndTheStream()) {
    has_failed_ = true;
    Close(status);
  }
  if (has_failed_) {
    EndWithoutMessage(std::move(answer.record));
    return;
  }
  for (size_t i = 0; i + 1 < answer.messages.size(); ++i) {
    Send(answer.messages[i]);
  }
  Send(answer.messages.back(), std::move(answer.record));
}

}  // namespace attention
