// What an answer must have: the parts and the shapes that the request asks for.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/lib/attend_request.h"

namespace attention {

/// An extent that the request does not tell.
inline constexpr int64_t kAnyExtent = -1;

/// The rows of an output, {E} or {H, Dv}, as far as the request tells them.
struct AnswerRows {
  Dtype dtype = Dtype::kF32;
  Shape shape = {kAnyExtent};
};

/// Returns the number of heads of query_key_value; kAnyExtent for other requests, which do not tell
/// it. REQUIRES: SequencesOf accepts `request`.
int64_t QueryHeads(const AttendRequest& request);

/// Returns the dtype and the rows of the output that `request` asks for.
AnswerRows AnswerRowsOf(const AttendRequest& request);

/// Returns INTERNAL, with the name `what`, unless `found` has the extents `leading`, and then those
/// of `row`. kAnyExtent stands for any.
absl::Status CheckShape(const char* what, const Shape& leading, const Shape& row,
                        const Shape& found);

/// Returns INTERNAL unless a whole answer has the parts that `request` asks for, and each of them
/// has its shape, as far as the request tells it.
absl::Status CheckAnswer(const AttendRequest& request, const AttendResult& result);

/// Returns pointers to the tensors, which they borrow.
std::vector<const Tensor*> PointersTo(const std::vector<Tensor>& tensors);

}  // namespace attention
