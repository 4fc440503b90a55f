// What a load asks for: one request, or one at several lengths.
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

/// Query rows that one request asks for, padding left out; those of texts are `answer`'s tokens.
/// Errors of SequencesOf.
absl::StatusOr<int64_t> QueryRows(const AttendRequest& request, const AttendResult& answer);

/// "hidden states [2, 5, 512] FP32, lengths 3,5", "2 sequences of 3,2 tokens", "2 texts", "query
/// [..] key [..] value [..] FP32"; then what of the model runs, and the options, but for causal.
std::string Describe(const AttendRequest& request);

/// What of the model runs: ", layer 3", ", mean pooled, weights of layers 0,3"; empty: all of it.
std::string DescribeRun(const AttendRequest& request);

/// "window right" of "window_right".
std::string WordsOf(const std::string& field);

/// What is set, but for causal: ", window 4, rotary, bias [1, 1, 5, 5]"; empty when nothing is.
std::string DescribeOptions(const AttendRequest& request);

}  // namespace attention
