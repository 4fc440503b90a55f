// Converts an Open Inference request to a request of the native API.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/services/open_inference/infer_inputs.h"
#include "server/services/open_inference/infer_parameters.h"
#include "server/services/open_inference/input_rows.h"
#include "server/services/open_inference/model_interface.h"

namespace attention {

struct NativeRequest {
  Received<v1::AttendRequest> attend;
  /// The extents `[B, S]` of input_ids or hidden_states, and the rows of each sequence that are no
  /// padding; empty if the request has neither.
  PaddedExtents extents;
  std::vector<SequenceRows> rows;
};

/// Makes the native request. Tokens are packed without their padding. Other inputs stay where they
/// are, with lengths, as if they were padded on the right. INVALID_ARGUMENT names the input.
absl::StatusOr<NativeRequest> MakeNativeRequest(const InferInputs& inputs,
                                                const InferParameters& parameters,
                                                const InferTarget& target);

}  // namespace attention
