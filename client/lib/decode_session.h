// What is asked of a session of sequences that grow step by step, and what comes back, as plain
// structs. Shapes and meanings are those of attention.proto's DecodeStep and DecodeResult.
#pragma once

#include <cstdint>
#include <optional>

#include "client/lib/attend_request.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// The next tokens of a sequence. Tensors are borrowed until the call returns.
struct StepRequest {
  /// One sequence, packed: [n, E]; ids; one text; query [n, H, D] with key and value of as many
  /// rows. No lengths, offsets or memory.
  decltype(AttendRequest::input) input = {};
  v1::ModelOutput model_output = v1::LAST_HIDDEN_STATES;
  /// k > 0: instead of an output, the k largest logits that follow the last token.
  int64_t top_logits = 0;
  /// The tokens are only taken in.
  bool no_output = false;
};

/// A session after an action.
struct SessionState {
  /// Tokens of the sequence that was acted on.
  int64_t length = 0;
  v1::SessionUsage usage = {};
};

struct StepResult {
  /// Output [n, E], [n, V], [1, V] or [n, H, Dv], and what else the session's options ask for;
  /// empty but for tokens of a text when the step wants no output.
  AttendResult answer = {};
  std::optional<v1::TopLogits> top_logits = {};
  SessionState session = {};
};

}  // namespace attention
