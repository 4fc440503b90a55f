// A call with many requests and many answers, each on its own.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/runtime/mutex.h"
#include "server/services/calls/attend_call.h"

namespace attention {

/// Reads while few requests are under way and the client takes its answers: a client that does not
/// read, or asks too much at once, is not read from. Every request enters the admission gate, and
/// leaves it when its last message has gone, or will never go.
class DuplexCall : public std::enable_shared_from_this<DuplexCall> {
 public:
  virtual ~DuplexCall() = default;
  /// Of a handler: the call ends with `status`. Does not throw.
  void OnFailure(const absl::Status& status) noexcept;
  /// The client is gone, or takes no answer any more.
  bool is_cancelled() const { return is_cancelled_; }
  /// What ends the call, whose client takes no answers; may be called after its end.
  std::function<void()> GiveUp();
  /// Does what takes long beside computing, or may not be done here, by another thread; without
  /// memory for that, here. REQUIRES: a request is under way until `run` has begun; `run` does not
  /// throw.
  void RunAside(int64_t cost, const std::function<void()>& run);

 protected:
  /// `rpc`, a literal, is what errors, log and metrics call it.
  DuplexCall(const CallEnvironment& environment, const char* rpc);

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
  /// What OnMessage would take, as AttendCall::PlanningCost.
  virtual int64_t PlanningCost(const grpc::ByteBuffer& message) const = 0;
  /// One request, which is answered by any number of Sends, the last with its record, whose
  /// request_bytes are the message's. One at a time, by completion threads, or side threads where
  /// it takes long; may Send. Does not throw. message_metadata() is its own.
  virtual void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) = 0;
  /// Once, the last of all, when nothing is under way any more; `is_clean` when the client said
  /// that it was done, and was there to the end.
  virtual void OnEnd(bool is_clean) = 0;

  /// Any thread; does not block. With `ended`, the request is answered; the record gets its send_ns
  /// and goes to the observer. Does not throw: without memory for the message the call ends with
  /// that error.
  void Send(const grpc::ByteBuffer& message, std::optional<RequestRecord> ended = std::nullopt);
  /// OnEnd does not come while one of these lives. REQUIRES: a request is under way, or another one
  /// lives.
  class Hold {
   public:
    explicit Hold(DuplexCall& call) : call_(call) { call_.ChangeUnderWay(1); }
    ~Hold() {
      call_.ChangeUnderWay(-1);
      call_.Advance();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    DuplexCall& call_;
  };

  /// The request is over without a further message. Any thread; does not block or throw.
  void EndWithoutMessage(RequestRecord ended);

  /// The terms on which a request is planned. REQUIRES: the account's end comes before the call's.
  PlanCaller AsPlanCaller();

  /// Nothing is read any more, and when what is under way is answered the call ends with `status`.
  /// Does not throw.
  void Close(const absl::Status& status);

  /// The request of the message, which OnMessage was to answer, ends the call. Does not throw.
  void RefuseMessage(const grpc::ByteBuffer& message, TimePoint arrival,
                     const absl::Status& status);
  /// Closes, and records what no request does.
  void Refuse(const absl::Status& status);
  /// Whether requests are under way.
  bool is_busy();

  /// Of the message that OnMessage is given, with the caller's rights as they are now.
  const CallMetadata& message_metadata() const { return message_metadata_; }
  /// As it was when the call came.
  const CallMetadata& metadata() const { return metadata_; }
  /// Of the call.
  TimePoint deadline() const { return deadline_; }

  const CallEnvironment& environment_;
  const char* const rpc_;
  const Visit visit_;  // leaves last, when nothing of the call is left
  grpc::ServerContext context_;

 private:
  struct Outgoing {
    grpc::ByteBuffer bytes;
    std::optional<RequestRecord> ended;
    TimePoint queued;
  };

  void OnRequest(bool ok);
  void OnRead(bool ok);
  /// UNAUTHENTICATED where the token was taken back, has expired, or is another tenant's by now.
  absl::Status AdmitMessage(const grpc::ByteBuffer& message);
  void Take(const grpc::ByteBuffer& message);
  void TakeNow(const grpc::ByteBuffer& message, TimePoint arrival);
  /// Of a compressed message, what it says.
  absl::StatusOr<grpc::ByteBuffer> InflateOnAccount(const grpc::ByteBuffer& message);
  void EndRead();
  void OnWritten(bool ok);
  void OnDone(bool ok);
  void OnFinish(bool ok);
  /// Starts whatever can be started now. Does not throw.
  void Advance();
  /// What Advance found to start.
  struct Steps {
    bool reads = false;
    bool writes = false;
    std::optional<absl::Status> end;
  };
  std::optional<Steps> NextSteps();
  void StartWrite();
  void StartEnd(const absl::Status& status);
  /// Nothing can be told to the client any more: the call is cancelled.
  void Abandon(const absl::Status& status) noexcept;
  /// The request behind a message that has gone, or never will, is over. Does not throw.
  void EndRequest(Outgoing& outgoing);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropQueue();
  void ChangeUnderWay(int change);

  RawStream stream_{&context_};
  CallTag<DuplexCall> on_request_{this, &DuplexCall::OnRequest};
  CallTag<DuplexCall> on_read_{this, &DuplexCall::OnRead};
  CallTag<DuplexCall> on_written_{this, &DuplexCall::OnWritten};
  CallTag<DuplexCall> on_done_{this, &DuplexCall::OnDone};
  CallTag<DuplexCall> on_finish_{this, &DuplexCall::OnFinish};
  CallMetadata metadata_;
  CallMetadata message_metadata_;  // of the message that is being taken
  TimePoint deadline_ = TimePoint::max();
  grpc::ByteBuffer message_;         // being read
  int64_t planning_cost_ = 0;        // of the message that was read
  std::unique_ptr<HeldBytes> held_;  // while it waits to be taken
  Outgoing writing_;                 // being written
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_given_up_ = false;
  bool is_closed_by_client_ = false;  // once the end is on its way

  Mutex mutex_;
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t under_way_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of their messages
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
