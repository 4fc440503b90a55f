// A request with its tensors, and descriptions of requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// A request that owns the tensors it borrows. Movable.
struct Workload {
  std::vector<std::unique_ptr<const Tensor>> tensors;
  std::unique_ptr<const MaskTensor> mask;
  AttendRequest request;
};

/// Returns the query rows of a request, without padding; for texts, the tokens of their `answer`.
/// Errors of SequencesOf.
absl::StatusOr<int64_t> QueryRows(const AttendRequest& request, const AttendResult& answer);

/// Describes the input: "hidden states [2, 5, 512] FP32, lengths 3,5", "2 sequences of 3,2 tokens",
/// "2 texts", "query [..] key [..] value [..] FP32"; then the part of the model that runs, and the
/// options except what is returned, as protobuf text that is cut after 200 characters, and whether
/// they are causal: ", layer 3, window: 4 sinks: [0.5, -1], causal, bias [1, 1, 5, 5]".
std::string Describe(const AttendRequest& request);

/// Returns the name of a field in words: "window right" for "window_right".
std::string WordsOf(const std::string& field);

}  // namespace attention
