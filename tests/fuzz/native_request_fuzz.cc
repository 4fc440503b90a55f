// AttendRequest from the wire to its plan: never a crash, the same verdict however it is cut.
#include "proto/codec/envelope.h"
#include "server/services/plan/plan_request.h"
#include "tests/fuzz/wire_fuzz.h"

namespace {

absl::Status Plan(const uint8_t* data, size_t size, size_t slice_bytes) {
  const auto received =
      attention::Decode<attention::v1::AttendRequest>(attention::CutBytes(data, size, slice_bytes));
  if (!received.ok()) {
    return received.status();
  }
  const auto model = attention::ModelOf(received->message, attention::FuzzedModels());
  if (!model.ok()) {
    return model.status();
  }
  const auto plan = attention::PlanAttendOn(*model, *received, {1 << 20, "--max-message-bytes"});
  if (plan.ok()) {
    attention::CheckPlan(*plan);
  }
  return plan.status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (Plan(data, size, 1 << 20) != Plan(data, size, 13)) {
    abort();
  }
  return 0;
}
