#include "server/services/plan/tensor_field.h"

#include <utility>

namespace attention {

absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank) {
  if (!field.is_present) {
    return Wrong(field.path, ": expected a tensor, found none");
  }
  absl::StatusOr<ReceivedTensor> read =
      ReadTensor(field.wire, request.PayloadOf(field.wire), field.path.path);
  if (!read.ok()) {
    return AboutField(field.path, read.status());
  }
  ReceivedTensor tensor = *std::move(read);
  if (tensor.shape.size() != padded_rank && tensor.shape.size() + 1 != padded_rank) {
    return Wrong(field.path, ".shape: expected rank ", padded_rank, " (padded) or ",
                 padded_rank - 1, " (packed), found ", ShapeText(tensor.shape));
  }
  return tensor;
}

}  // namespace attention
