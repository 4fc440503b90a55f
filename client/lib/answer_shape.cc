#include "client/lib/answer_shape.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"

namespace attention {

absl::Status CheckShape(const char* what, const Shape& leading, const Shape& row,
                        const Shape& found) {
  const auto is_alike = [](int64_t expected, int64_t extent) {
    return expected == kAnyExtent || expected == extent;
  };
  const size_t rank = leading.size() + row.size();
  if (found.size() == rank && std::equal(leading.begin(), leading.end(), found.begin()) &&
      std::equal(row.begin(), row.end(), found.begin() + std::ssize(leading), is_alike)) {
    return absl::OkStatus();
  }
  const auto text = [](std::string* out, int64_t extent) {
    absl::StrAppend(out, extent == kAnyExtent ? "any" : absl::StrCat(extent));
  };
  return absl::InternalError(
      absl::StrCat("malformed answer: ", what, ": expected [", absl::StrJoin(leading, ", "), ", ",
                   absl::StrJoin(row, ", ", text), "], found ", ShapeText(found)));
}

AnswerRows AnswerRowsOf(const AttendRequest& request) {
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    const Shape& query = input->query->shape();
    return {input->query->dtype(), {query[query.size() - 2], input->value->shape().back()}};
  }
  const auto* input = std::get_if<HiddenStatesInput>(&request.input);
  const bool are_logits =
      request.model_output == v1::LOGITS || request.model_output == v1::LAST_LOGITS;
  if (input != nullptr && input->tensor != nullptr && !are_logits) {
    return {input->tensor->dtype(), {input->tensor->shape().back()}};
  }
  return {};
}

absl::Status CheckOutput(const AttendRequest& request, const AttendResult& result) {
  const absl::StatusOr<std::vector<SequenceSpan>> spans = SequencesOf(request, result.tokens);
  if (!spans.ok()) {
    return absl::InternalError(absl::StrCat("malformed answer: ", spans.status().message()));
  }
  return CheckShape("output", LeadingExtents(request, *spans), AnswerRowsOf(request).shape,
                    result.output.shape());
}

}  // namespace attention
