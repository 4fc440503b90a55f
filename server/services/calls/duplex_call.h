// A call with many requests and many answers.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "core/runtime/contain.h"
#include "core/runtime/mutex.h"
#include "server/services/calls/attend_call.h"
#include "server/services/calls/cancellation.h"
#include "server/services/calls/idle_watch.h"

namespace attention {

/// Reads requests while few are running and the client reads its answers; a client that does not
/// read, or sends too many requests at once, is not read from. Every request enters the admission
/// gate, and leaves it when its last message is sent, or will never be. A call on which
/// nothing has happened for the timeout of the IdleWatch ends with ABORTED, or with CANCELLED if
/// its client has not taken an answer; when the server drains, it ends with UNAVAILABLE.
class DuplexCall : public IdleStream, public std::enable_shared_from_this<DuplexCall> {
 public:
  virtual ~DuplexCall() = default;
  /// Ends the call with `status`, the failure of a handler. Does not throw.
  void OnFailure(const absl::Status& status) noexcept;
  void EndIfIdleSince(TimePoint before, const absl::Status& reason) noexcept override;
  void EndWhenAnswered(const absl::Status& reason) noexcept override;
  /// Returns whether the client is gone, or does not read answers any more.
  bool is_cancelled() const { return cancellation_.is_set(); }
  /// Cancels the call, whose session another stream resumes. Any thread, also after the call's end.
  void EndForAnother() noexcept;
  /// Returns a function that ends the call of a client that does not read answers. It may be called
  /// after the call's end.
  std::function<void()> GiveUp();
  /// Runs long work on a side thread; without memory for that, on this thread. REQUIRES: a request
  /// is running until `run` has begun; `run` does not throw.
  template <typename Run>
  void RunOnSideThread(int64_t cost, const Run& run) {
    const absl::Status given = ContainVoid("the request", [&] {
      GiveToSideThread(cost, [self = shared_from_this(), run] { run(); });
    });
    if (!given.ok()) {
      run();
    }
  }

 protected:
  /// `rpc` is a literal, which log and metrics use.
  DuplexCall(const CallEnvironment& environment, const char* rpc);

  /// Waits for a call. `service` is a HeadersFirst.
  template <typename Service>
  void Await(Service& service, int method) {
    service.AwaitClient(method, context_, stream_, environment_.queue, on_done_, on_request_);
  }

  /// Waits for another call of the method.
  virtual void PostNext() = 0;
  /// Returns the cost of OnMessage, as AttendCall::PlanningCost.
  virtual int64_t PlanningCost(const grpc::ByteBuffer& message) const = 0;
  /// Handles one request. It is answered by any number of Sends, the last with its record, whose
  /// request_bytes are the message's. Called for one message at a time, by completion threads, or
  /// by side threads for long work; may Send. Does not throw. message_metadata() belongs to the
  /// message.
  virtual void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) = 0;
  /// Answers a large message with `status`, because there is no room to read all of it; as
  /// OnMessage otherwise. Returns false when it cannot tell which request that is: the call ends.
  virtual bool OnMessageWithoutRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                                    const absl::Status& status) = 0;
  /// Called before OK is sent to a client that has finished its requests, when all are answered:
  /// what it frees is free when the client sees the status. Does not throw.
  virtual void OnAllAnswered() {}
  /// Called once and last, when no request is running any more; `is_clean` if the client finished
  /// its requests and stayed to the end. Any thread that can end the call, without a lock.
  virtual void OnEnd(bool is_clean) = 0;

  /// Sends a message. With `ended`, the request is answered; the record gets its send_ns and goes
  /// to the observer. Any thread; does not block. Does not throw: without memory for the message,
  /// the call ends with that error.
  void Send(const grpc::ByteBuffer& message, std::optional<RequestRecord> ended = std::nullopt);
  /// Sets whether no further message is read. Advance, which the end of each EndDelay calls, reads
  /// on.
  void PauseReading(bool is_paused);
  /// Delays OnEnd while it lives. REQUIRES: a request is running, or another EndDelay lives.
  class EndDelay {
   public:
    explicit EndDelay(DuplexCall& call) : call_(call) { call_.AddRunning(1); }
    ~EndDelay() {
      call_.AddRunning(-1);
      call_.Advance();
    }
    EndDelay(const EndDelay&) = delete;
    EndDelay& operator=(const EndDelay&) = delete;

   private:
    DuplexCall& call_;
  };

  /// Ends a request without a further message. Any thread; does not block or throw.
  void EndWithoutMessage(RequestRecord ended);

  /// Returns the caller for a PlanAccount; `request_class` is that of the message. REQUIRES: the
  /// account is destroyed before the call.
  PlanCaller AsPlanCaller(const RequestClass& request_class);

  /// Stops reading; when the running requests are answered, the call ends with `status`. Does not
  /// throw.
  void Close(const absl::Status& status);

  /// Ends the call because of the request that OnMessage was to answer. Does not throw.
  void RefuseMessage(const grpc::ByteBuffer& message, TimePoint arrival,
                     const absl::Status& status);
  /// Closes, and records the error, which belongs to no request.
  void Refuse(const absl::Status& status);

  /// The metadata of the message that OnMessage is given, with the caller's current rights.
  const CallMetadata& message_metadata() const { return message_metadata_; }
  /// The metadata at the arrival of the call.
  const CallMetadata& metadata() const { return metadata_; }
  /// The deadline of the call.
  TimePoint deadline() const { return deadline_; }

  const CallEnvironment& environment_;
  const char* const rpc_;
  const Visit visit_;  // destroyed last
  grpc::ServerContext context_;

 private:
  void GiveToSideThread(int64_t cost, std::function<void()> run);
  struct Outgoing {
    grpc::ByteBuffer bytes;
    std::optional<RequestRecord> ended;
    TimePoint queued;
  };

  void OnRequest(bool ok);
  /// Begins to watch for idleness, and adds the timeout to the initial metadata, which are sent
  /// with the first answer.
  void WatchIdleness();
  void OnRead(bool ok);
  /// Enters the admission gate for a message. Returns UNAUTHENTICATED if the token was revoked, has
  /// expired, or now belongs to another tenant; UNAVAILABLE if the server drains. Both end the
  /// call.
  absl::Status AdmitMessage(const grpc::ByteBuffer& message);
  /// Reserves memory for a large message, and handles it on a side thread.
  void Take(const grpc::ByteBuffer& message);
  /// Returns the cost of handling the message. Holds its bytes if a side thread has to.
  absl::StatusOr<int64_t> ReserveIfLarge(const grpc::ByteBuffer& message);
  /// Refuses a large message for which there is no memory. Ends the call if the message must be
  /// read as a whole to tell which request it is, as a compressed message must.
  void RefuseRoom(const grpc::ByteBuffer& message, TimePoint arrival, const absl::Status& status);
  void TakeNow(const grpc::ByteBuffer& message, TimePoint arrival);
  /// Inflates a compressed message.
  absl::StatusOr<grpc::ByteBuffer> InflateOnAccount(const grpc::ByteBuffer& message);
  void EndRead();
  void OnWritten(bool ok);
  void OnDone(bool ok);
  void OnFinish(bool ok);
  /// Called by OnDone and by OnFinish. The later of the two calls OnEnd.
  void EndWhenBothAreKnown();
  /// Starts every operation that can be started now. Does not throw.
  void Advance();
  /// The operations that Advance may start.
  struct Steps {
    bool reads = false;
    bool writes = false;
    std::optional<absl::Status> end;
  };
  std::optional<Steps> NextSteps();
  void StartWrite();
  void StartEnd(const absl::Status& status);
  /// Cancels the call, because nothing can be sent to the client any more.
  void Abandon(const absl::Status& status) noexcept;
  /// Ends the request of a message. An answer that was not sent, and never will be, counts as
  /// cancelled. Does not throw.
  void EndRequest(Outgoing& outgoing, bool is_sent);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropQueue();
  void AddRunning(int change);

  RawStream stream_{&context_};
  CallTag<DuplexCall> on_request_{this, &DuplexCall::OnRequest};
  CallTag<DuplexCall> on_read_{this, &DuplexCall::OnRead};
  CallTag<DuplexCall> on_written_{this, &DuplexCall::OnWritten};
  CallTag<DuplexCall> on_done_{this, &DuplexCall::OnDone};
  CallTag<DuplexCall> on_finish_{this, &DuplexCall::OnFinish};
  CallMetadata metadata_;
  CallMetadata message_metadata_;  // the metadata for the message that is being handled
  TimePoint deadline_ = TimePoint::max();
  grpc::ByteBuffer message_;         // the message that is being read
  bool has_had_request_ = false;     // changed by one read at a time
  std::unique_ptr<HeldBytes> held_;  // held while the message waits for a side thread
  Outgoing writing_;                 // the message that is being written
  Cancellation cancellation_;
  std::atomic<bool> is_given_up_ = false;
  std::atomic<bool> is_taken_over_ = false;
  /// Whether the stream was ended because its caller took no answer.
  std::atomic<bool> is_unread_ = false;
  bool is_closed_by_client_ = false;  // set when the end is being sent
  std::atomic<bool> is_finished_ = false;
  std::atomic<int> ends_known_ = 0;  // counts the calls of OnDone and OnFinish
  IdleWatch::Registration idle_registration_;

  Mutex mutex_;
  std::list<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The running requests whose whole answer waits to be sent.
  int unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t running_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // the messages of the running requests
  TimePoint last_activity_ ABSL_GUARDED_BY(mutex_);    // when a request came, or a message was sent
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
