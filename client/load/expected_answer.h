// The answer that a request should get, recomputed in double precision with core/reference.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

using Doubles = std::vector<double>;

/// The answer in double precision; rows of padding are 0.
struct ExpectedAnswer {
  Doubles output;
  // One for each sequence.
  std::vector<Doubles> weights;      // [H, query_len, kv_len]
  std::vector<Doubles> log_sum_exp;  // [H, query_len]
};

/// Returns `count` elements of `tensor`, from the element `first` on.
Doubles DoublesOf(const Tensor& tensor, int64_t first, int64_t count);

/// Returns the answer to a request with query_key_value, whose sequences are `sequences`.
/// INVALID_ARGUMENT for options that a server would have refused.
absl::StatusOr<ExpectedAnswer> ExpectedOfAttention(const AttendRequest& request,
                                                   const std::vector<SequenceSpan>& sequences);

/// Returns the answer to a request with tokens or hidden states by one attention layer, whose
/// weights of type `dtype` the seed of `model` gives. INVALID_ARGUMENT for tokens and options that
/// a server would have refused.
absl::StatusOr<ExpectedAnswer> ExpectedOfLayer(const v1::Model& model, Dtype dtype,
                                               const AttendRequest& request,
                                               const std::vector<SequenceSpan>& sequences);

}  // namespace attention
