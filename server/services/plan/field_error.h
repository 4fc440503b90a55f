// Errors about the fields of a request. They carry the paths of the fields as data, so that another
// protocol can present the same error with its own names.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {

/// The path of a field in the text of an error: "hidden_states.memory".
struct FieldPath {
  std::string path;
};

/// The bytes of a field's path in the text of a status.
struct FieldSpan {
  size_t begin = 0;
  size_t size = 0;
};

/// Composes the text of an error from pieces, and remembers which of them are paths of fields.
class FieldErrorText {
 public:
  void Append(const FieldPath& field) {
    fields_.push_back({text_.size(), field.path.size()});
    text_ += field.path;
  }
  void Append(const absl::AlphaNum& piece) { absl::StrAppend(&text_, piece); }

  absl::Status ToStatus(absl::StatusCode code) const;

 private:
  std::string text_;
  std::vector<FieldSpan> fields_;
};

/// Returns a status with the pieces of its text: the field, what was expected and what was found.
template <typename... Pieces>
absl::Status FieldError(absl::StatusCode code, const Pieces&... pieces) {
  FieldErrorText text;
  (text.Append(pieces), ...);
  return text.ToStatus(code);
}

/// Returns a FieldError with INVALID_ARGUMENT.
template <typename... Pieces>
absl::Status Wrong(const Pieces&... pieces) {
  return FieldError(absl::StatusCode::kInvalidArgument, pieces...);
}

/// Returns `status` as a FieldError. REQUIRES: its text begins with the path of `field`.
absl::Status AboutField(const FieldPath& field, const absl::Status& status);

/// Returns a FieldError whose text begins with a field's path with `prefix` before the path; other
/// statuses as they are.
absl::Status UnderField(const std::string& prefix, const absl::Status& status);

/// Returns the fields that the text of a FieldError names, in their order; none for other statuses.
std::vector<FieldSpan> FieldsOf(const absl::Status& status);

}  // namespace attention
