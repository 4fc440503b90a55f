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

absl::Status UnderField(const std::string& prefix, const absl::Status& status) {
  std::vector<FieldSpan> fields = FieldsOf(status);
  if (fields.empty() || fields.front().begin != 0) {
    return status;
  }
  for (FieldSpan& field : fields) {
    field.begin += prefix.size();
  }
  fields.front() = {0, fields.front().size + prefix.size()};
  return WithFields(
      absl::Status(status.code(), absl::StrCat(prefix, std::string(status.message()))), fields);
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
