// A session on a server: sequences that grow step by step, whose keys and values the server keeps.
//
//   v1::OpenSession open;
//   open.set_model("gpt2");
//   ASSIGN_OR_RETURN(auto stream, DecodeStream::Open({}, open));
//   ASSIGN_OR_RETURN(StepResult prompt, stream->Step({.input = TokenIdsInput{{17, 4, 250}}}));
//   ASSIGN_OR_RETURN(StepResult next, stream->Step({.input = TokenIdsInput{{9}}}));
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

/// A session after an action.
struct SessionState {
  /// The number of tokens of the sequence of the action.
  int64_t length = 0;
  v1::SessionUsage usage = {};
};

struct StepResult {
  /// The output [n, E], [n, V], [1, V] or [n, H, Dv], and what else the options of the session ask
  /// for. A step without output has only the tokens of its text.
  AttendResult answer = {};
  std::optional<v1::TopLogits> top_logits = {};
  SessionState session = {};
};

struct DecodeStreamOptions {
  ConnectionOptions connection = {};
  /// The maximum wait for the answer to an action; after it the session ends.
  absl::Duration timeout = absl::Seconds(30);
  /// Deadline of the stream as a whole.
  absl::Duration lifetime = absl::Hours(24);
};

/// One thread at a time. Each action blocks until it is answered. An action that the server refuses
/// leaves the session as it was, and its error is the server's. When the stream breaks
/// (UNAVAILABLE; DEADLINE_EXCEEDED after the timeout; INTERNAL for a malformed answer), the session
/// ends, and all later actions fail with the same error. The destructor cancels an open session.
class DecodeStream {
 public:
  /// INVALID_ARGUMENT for durations that are not positive and finite; errors of MakeChannel, and
  /// the server's.
  static absl::StatusOr<std::unique_ptr<DecodeStream>> Open(const DecodeStreamOptions& options,
                                                            const v1::OpenSession& open);
  ~DecodeStream();

  /// The answer to Open: resume_token, usage, the length of a resumed sequence.
  const v1::DecodeResult& opened() const;

  /// OK while the session goes on; afterwards the error that ended it.
  const absl::Status& status() const;

  absl::StatusOr<StepResult> Step(const StepRequest& step, int64_t sequence = 0);
  /// Sends a step and does not wait for its answer. Other actions wait until ReceiveSteps has taken
  /// the answers of all steps: before, they are FAILED_PRECONDITION. The transport holds only so
  /// many bytes of answers that nobody reads: send a few MiB of requests and answers at a time.
  absl::Status SendStep(const StepRequest& step, int64_t sequence = 0);
  /// Waits for the answers to all steps under way, and returns them in the order of SendStep.
  std::vector<absl::StatusOr<StepResult>> ReceiveSteps();
  /// Makes `new_sequence`, in 1..65535, with the tokens of `sequence`.
  absl::StatusOr<SessionState> Fork(int64_t sequence, int64_t new_sequence);
  /// Removes the tokens from `length` on.
  absl::StatusOr<SessionState> Truncate(int64_t sequence, int64_t length);
  absl::StatusOr<SessionState> Release(int64_t sequence);
  /// Ends the session. OK if the server ended the call with OK.
  absl::Status Close();

 private:
  struct State;
  explicit DecodeStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace attention
