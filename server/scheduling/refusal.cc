#include "server/scheduling/refusal.h"

#include <cstring>

namespace attention {
namespace {

constexpr char kPayload[] = "attend/refusal";

}  // namespace

absl::Status Refuse(absl::StatusCode code, const std::string& text, const Refusal& refusal) {
  absl::Status status(code, text);
  status.SetPayload(
      kPayload, absl::Cord(std::string(reinterpret_cast<const char*>(&refusal), sizeof(refusal))));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    return std::nullopt;
  }
  Refusal refusal;
  const std::string bytes(*payload);
  std::memcpy(&refusal, bytes.data(), sizeof(refusal));
  return refusal;
}

}  // namespace attention
