// A tensor that a request has to have.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"

namespace attention {

/// A field that holds a tensor, and its path in the request.
struct TensorField {
  const v1::Tensor& wire;
  bool is_present;
  std::string path;
};

/// The field's tensor, present and as ReadTensor demands, of one of two ranks: `padded_rank`, or
/// one less when packed.
absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank);

}  // namespace attention
