#include "server/services/plan/tensor_field.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank) {
  if (!field.is_present) {
    return absl::InvalidArgumentError(absl::StrCat(field.path, ": expected a tensor, found none"));
  }
  ASSIGN_OR_RETURN(ReceivedTensor tensor,
                   ReadTensor(field.wire, request.PayloadOf(field.wire), field.path));
  if (tensor.shape.size() != padded_rank && tensor.shape.size() + 1 != padded_rank) {
    return absl::InvalidArgumentError(absl::StrCat(field.path, ".shape: expected rank ",
                                                   padded_rank, " (padded) or ", padded_rank - 1,
                                                   " (packed), found ", ShapeText(tensor.shape)));
  }
  return tensor;
}

}  // namespace attention
