#include "server/services/plan/field_error.h"

#include <cstring>

namespace attention {
namespace {

constexpr char kPayload[] = "attend/fields";

absl::Status WithFields(absl::Status status, const std::vector<FieldSpan>& fields) {
  if (!fields.empty()) {
    status.SetPayload(kPayload,
                      absl::Cord(absl::string_view(reinterpret_cast<const char*>(fields.data()),
                                                   fields.size() * sizeof(FieldSpan))));
  }
  return status;
}

}  // namespace

absl::Status FieldErrorText::ToStatus(absl::StatusCode code) const {
  return WithFields(absl::Status(code, text_), fields_);
}

absl::Status AboutField(const FieldPath& field, const absl::Status& status) {
  return WithFields(status, {{0, field.path.size()}});
}

std::vector<FieldSpan> FieldsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    return {};
  }
  const std::string bytes(*payload);
  std::vector<FieldSpan> fields(bytes.size() / sizeof(FieldSpan));
  std::memcpy(fields.data(), bytes.data(), bytes.size());
  return fields;
}

}  // namespace attention
