// An Open Inference request as one of the native API.
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
  /// Of input_ids or hidden_states: `[B, S]`, and which rows of each sequence count; nothing where
  /// the request has neither.
  PaddedExtents extents;
  std::vector<SequenceRows> rows;
};

/// Tokens are packed without their padding; all else stays where it is, with lengths, as if it were
/// padded on the right. INVALID_ARGUMENT names the input.
absl::StatusOr<NativeRequest> MakeNativeRequest(const InferInputs& inputs,
                                                const InferParameters& parameters,
                                                const InferTarget& target);

}  // namespace attention
