// A session on a server: sequences that grow step by step, whose keys and values the server keeps.
//
//   v1::OpenSession open;
//   open.set_model("gpt2");
//   auto stream = DecodeStream::Open({}, open);  // absl::StatusOr
//   absl::StatusOr<StepResult> prompt = (*stream)->Step({.input = TokenIdsInput{{17, 4, 250}}});
//   absl::StatusOr<StepResult> next = (*stream)->Step({.input = TokenIdsInput{{9}}});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/attend_request.h"
#include "client/lib/connection_options.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// The state of a session after an action.
struct SessionState {
  /// The number of tokens of the sequence of the action.
  int64_t length = 0;
  v1::SessionUsage usage = {};
};

struct StepResult {
  /// The output [n, E], [n, V], [1, V] or [n, H, Dv], and the scores that the options of the
  /// session ask for. A step without output has only the tokens of its text.
  AttendResult answer = {};
  std::optional<v1::TopLogits> top_logits = {};
  SessionState session = {};
};

struct DecodeStreamOptions {
  ConnectionOptions connection = {};
  /// The maximum wait for the answer to an action; after it the session ends.
  absl::Duration timeout = absl::Seconds(30);
  /// The deadline of the stream as a whole.
  absl::Duration lifetime = absl::Hours(24);
};

/// A session. Only one thread at a time may use it. Each action blocks until its answer arrives. An
/// action that the server refuses leaves the session as it was, and its error is the server's, with
/// the pushback as a payload (kPushback). An action whose message is larger than
/// opened().max_message_bytes() is not sent: RESOURCE_EXHAUSTED. When the stream breaks
/// (UNAVAILABLE; DEADLINE_EXCEEDED after the timeout; INTERNAL for a malformed answer), the session
/// ends, and all later actions fail with the same error. The destructor cancels an open session.
class DecodeStream {
 public:
  /// Connects, and opens the session. INVALID_ARGUMENT for durations that are not positive or
  /// are more than a year; else errors of MakeChannel, and the server's.
  static absl::StatusOr<std::unique_ptr<DecodeStream>> Open(const DecodeStreamOptions& options,
                                                            const v1::OpenSession& open);
  ~DecodeStream();

  /// Returns the answer to Open: resume_token, usage, the length of a resumed sequence, and the
  /// maximum size of a message (0: an older server does not tell).
  const v1::DecodeResult& opened() const;

  /// Returns OK while the session is open, and then the error that ended it.
  const absl::Status& status() const;

  /// Adds tokens to a sequence, and returns the output of their rows.
  absl::StatusOr<StepResult> Step(const StepRequest& step, int64_t sequence = 0);
  /// Sends a step without waiting for its answer. Until ReceiveSteps has returned the answers to
  /// all steps, all other actions are FAILED_PRECONDITION, which leaves the session as it was. The
  /// transport holds a few MiB: send no more requests and answers at a time.
  absl::Status SendStep(const StepRequest& step, int64_t sequence = 0);
  /// Waits for the answers to all sent steps, and returns them in the order of SendStep.
  std::vector<absl::StatusOr<StepResult>> ReceiveSteps();
  /// Makes `new_sequence`, in 1..65535, with the tokens of `sequence`.
  absl::StatusOr<SessionState> Fork(int64_t sequence, int64_t new_sequence);
  /// Removes the tokens from position `length` on.
  absl::StatusOr<SessionState> Truncate(int64_t sequence, int64_t length);
  /// Removes a sequence, whose number is then free.
  absl::StatusOr<SessionState> Release(int64_t sequence);
  /// Ends the session. Returns OK if the server ended the call with OK.
  absl::Status Close();

 private:
  struct State;
  explicit DecodeStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace attention
