// A tensor that a request must have.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"
#include "server/services/plan/field_error.h"

namespace attention {

/// A field that holds a tensor, and its path in the request.
struct TensorField {
  const v1::Tensor& wire;
  bool is_present;
  FieldPath path;
};

/// Returns the field's tensor, which must be present and valid (ReadTensor), with rank
/// `padded_rank`, or one less if it is packed.
absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank);

}  // namespace attention
