// The shape that the output of an answer must have.
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

/// Returns the dtype and the rows of the output that `request` asks for.
AnswerRows AnswerRowsOf(const AttendRequest& request);

/// Returns INTERNAL, with the name `what`, unless `found` has the extents `leading`, and then those
/// of `row`, of which kAnyExtent stands for any.
absl::Status CheckShape(const char* what, const Shape& leading, const Shape& row,
                        const Shape& found);

/// Returns INTERNAL unless the output of a whole answer has the shape that `request` asks for, as
/// far as the request tells it.
absl::Status CheckOutput(const AttendRequest& request, const AttendResult& result);

}  // namespace attention
