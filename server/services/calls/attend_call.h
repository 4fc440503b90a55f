// A call that carries one request to compute: headers > room > read > decode > admit > submit >
// encode > finish exactly once.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/models/model_repository.h"
#include "server/observability/requests.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/gate.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/completion_threads.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/receive_watch.h"
#include "server/services/plan/plan_request.h"
#include "server/services/plan/plan_terms.h"
#include "server/services/reply/attend_job.h"

namespace attention {

/// Shared by all calls that compute, outlives them.
struct CallEnvironment {
  grpc::ServerCompletionQueue* queue = nullptr;
  const ModelRepository& models;
  Executor& executor;
  /// Closed when the server drains; requests being worked on are inside.
  Gate& admission;
  /// Every call object is inside.
  Gate& live_calls;
  /// Of requests, while they are on their way.
  ReceiveWatch& receiving;
  /// Who may call.
  const Access& access;
  RequestObserver& observer;
  ReplyLimit unary_limit;
  ReplyLimit stream_limit;
};

/// Everything up to the answer, and the end. Of the virtual functions the first three are called by
/// completion threads, those of AttendSink by the dispatcher's.
class AttendCall : public AttendSink,
                   public MessageReceiver,
                   public std::enable_shared_from_this<AttendCall> {
 public:
  ~AttendCall() override;
  bool is_cancelled() const override { return is_cancelled_; }
  std::function<void()> GiveUp() override;
  /// Ends the call, unless its end is on its way. Does not throw.
  void OnFailure(const absl::Status& status) noexcept;
  std::string Holder() const override;
  void StopReceiving(const absl::Status& status) noexcept override { OnFailure(status); }

 protected:
  /// `rpc`, a literal, is what log and metrics call it.
  AttendCall(const CallEnvironment& environment, std::string_view rpc, bool wants_rows);

  /// Waits for a call. `service` is a HeadersFirst.
  template <typename Service>
  void Await(Service& service, int method) {
    on_done_.ArmFor([&](void*) {
      on_request_.ArmFor([&](void* tag) {
        service.RequestCall(method, context_, stream_, environment_.queue, tag);
      });
    });
  }

  /// Waits for another call of the method.
  virtual void PostNext() = 0;
  /// What Plan would take, in bytes: more than kSmallPlanBytes are left to the side threads.
  virtual int64_t PlanningCost(const grpc::ByteBuffer& request) const = 0;
  /// What the request asks for. Its bytes may go afterwards.
  virtual absl::StatusOr<AttendPlan> Plan(const grpc::ByteBuffer& request,
                                          const PlanTerms& terms) = 0;
  /// Said of the request's tenant and priority by more than the metadata; may refuse.
  virtual absl::Status Refine(CallMetadata&, TimePoint&) { return absl::OkStatus(); }

  /// Starts the one operation that ends the call: the last message of the answer, or an error.
  /// After the end nothing happens; without memory for it it throws, and has not happened.
  void EndWith(const grpc::ByteBuffer& last_message);
  void EndWith(const absl::Status& error);
  /// Before either of them: what the scheduler said, and that from now on the answer is sent.
  void SetComputed(const BatchStats& stats);

  /// A block of the answer, or all of it, is on its way.
  void CountBlock(const grpc::ByteBuffer& message);

  /// For the log and the counts, also of a request whose plan fails.
  void SetModel(const std::string& name, int64_t version);

  /// Does what takes long beside computing by another thread, which keeps the call alive.
  void RunAside(int64_t cost, std::function<void()> run);

  void set_cancelled() { is_cancelled_ = true; }
  v1::Summary SummaryOf(const BatchStats& stats) const;
  const CallMetadata& metadata() const { return metadata_; }
  const Caller& caller() const { return metadata_.caller; }
  const ReplyLimit& limit() const;

  const CallEnvironment& environment_;
  const Visit visit_;  // leaves last, when nothing of the call is left
  grpc::ServerContext context_;
  RawStream stream_{&context_};

 private:
  void OnRequest(bool ok);
  void OnMessage(bool ok);
  void OnDone(bool ok);
  void OnFinish(bool ok);
  absl::Status CheckHeaders();
  void AdmitAside(int64_t cost);
  void AdmitOrEnd();
  absl::Status Admit();
  absl::StatusOr<AttendPlan> PlanOnAccount();
  /// Starts the end, once: `start` arms on_finish_, or throws.
  template <typename Start>
  void End(Start start);
  /// Says what became of the request, and leaves the admission gate; once. Does not throw.
  void Settle();

  Reception reception_;
  grpc::ByteBuffer request_;
  CallTag<AttendCall> on_request_{this, &AttendCall::OnRequest};
  CallTag<AttendCall> on_message_{this, &AttendCall::OnMessage};
  CallTag<AttendCall> on_done_{this, &AttendCall::OnDone};
  CallTag<AttendCall> on_finish_{this, &AttendCall::OnFinish};

  const bool wants_rows_;
  bool is_admitted_ = false;
  bool has_begun_ = false;
  std::atomic<bool> has_end_ = false;
  bool is_settled_ = false;
  bool lacks_message_ = false;
  CallMetadata metadata_;
  TimePoint deadline_ = TimePoint::max();
  TimePoint computed_;
  RequestRecord record_;
  std::unique_ptr<HeldBytes> held_;  // until it is planned
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_given_up_ = false;
};

}  // namespace attention
