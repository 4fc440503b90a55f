// A call with one request to compute. Its steps are: check the headers and the room in the queue,
// read the message, plan it, submit the job, encode the answer, finish exactly once.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/services/calls/call_environment.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/cancellation.h"
#include "server/services/calls/completion_threads.h"
#include "server/services/calls/headers_first.h"
#include "server/services/plan/plan_terms.h"
#include "server/services/reply/attend_job.h"

namespace attention {

/// The steps up to the answer, and the end of the call; a derived class sends the answer.
///
/// Threads: PostNext and PlanningCost are called by completion threads; Plan and Refine too, or for
/// a large request by a side thread; OnRows and Finish by the dispatcher's threads; OnFailure by
/// any of these; StopReceiving by the thread of the ReceiveWatch.
class AttendCall : public AttendSink,
                   public MessageReceiver,
                   public std::enable_shared_from_this<AttendCall> {
 public:
  ~AttendCall() override;
  bool is_cancelled() const override { return cancellation_.is_set(); }
  std::function<void()> GiveUp() override;
  /// Ends the call, unless it is ending already. Does not throw.
  void OnFailure(const absl::Status& status) noexcept;
  std::string Holder() const override;
  void StopReceiving(const absl::Status& status) noexcept override { OnFailure(status); }

 protected:
  /// `rpc` is a literal, which log and metrics use.
  AttendCall(const CallEnvironment& environment, std::string_view rpc, bool wants_rows);

  /// Waits for a call. `service` is a HeadersFirst.
  template <typename Service>
  void Await(Service& service, int method) {
    service.AwaitClient(method, context_, stream_, environment_.queue, on_done_, on_request_);
  }

  /// Waits for another call of the method.
  virtual void PostNext() = 0;
  /// Returns the cost of Plan in bytes. If it is more than kSmallPlanBytes, a side thread plans.
  virtual int64_t PlanningCost(const grpc::ByteBuffer& request) const = 0;
  /// Plans the request, whose bytes may be released afterwards. Returns the errors of the request.
  virtual absl::StatusOr<AttendPlan> Plan(const grpc::ByteBuffer& request,
                                          const PlanTerms& terms) = 0;
  /// Changes priority and deadline by what the request itself says.
  virtual void Refine(TimePoint /*arrival*/, CallMetadata&, TimePoint& /*deadline*/) {}

  /// Starts the one operation that ends the call: the last message of the answer, or an error. If
  /// the call has ended, nothing happens. Throws when there is no memory; then the call has not
  /// ended.
  void EndWith(const grpc::ByteBuffer& last_message);
  void EndWith(const absl::Status& error);
  /// Sets the scheduler's measurements, and notes that sending begins. Called before EndWith.
  void SetComputed(const BatchStats& stats);

  /// Counts a part of the answer that is being sent.
  void CountBlock(const grpc::ByteBuffer& message);

  /// Sets the model for the log and the counts, also for a request whose plan fails.
  void SetModel(const std::string& name, int64_t version);

  /// Runs long work on a side thread, which keeps the call alive.
  void RunOnSideThread(int64_t cost, std::function<void()> run);

  /// Notes that the client is gone. Does not throw.
  void set_cancelled() { cancellation_.Set(context_); }
  v1::Summary SummaryOf(const BatchStats& stats) const;
  const CallMetadata& metadata() const { return metadata_; }
  const Caller& caller() const { return metadata_.caller; }
  const ReplyLimit& limit() const;

  const CallEnvironment& environment_;
  const Visit visit_;  // destroyed last
  grpc::ServerContext context_;
  RawStream stream_{&context_};

 private:
  void OnRequest(bool ok);
  void OnMessage(bool ok);
  void OnDone(bool ok);
  void OnFinish(bool ok);
  absl::Status CheckHeaders();
  void AdmitOnSideThread(int64_t cost);
  void AdmitOrEnd();
  absl::Status Admit();
  absl::StatusOr<AttendPlan> PlanOnAccount();
  /// Starts the end, once: `start` arms on_finish_, or throws.
  template <typename Start>
  void End(Start start);
  /// Reports the finished request, and leaves the admission gate; once. Does not throw.
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
  bool has_request_id_ = false;  // whether the trailers have it; used by the owner of has_end_
  bool is_settled_ = false;
  bool lacks_message_ = false;
  CallMetadata metadata_;
  TimePoint deadline_ = TimePoint::max();
  /// When the current phase began: receiving, then waiting and computing, then sending.
  TimePoint phase_start_;
  RequestRecord record_;
  std::unique_ptr<HeldBytes> held_;  // held until the request is planned
  Cancellation cancellation_;
  std::atomic<bool> is_given_up_ = false;
};

}  // namespace attention
