// ModelInferRequest from the wire to its plan: never a crash, the same verdict however it is cut.
#include "server/services/open_inference/infer_plan.h"
#include "tests/fuzz/wire_fuzz.h"

namespace {

absl::Status Plan(const uint8_t* data, size_t size, size_t slice_bytes) {
  attention::InferIdentity identity;
  const auto plan = attention::ReadInfer(
      attention::CutBytes(data, size, slice_bytes),
      {.models = attention::FuzzedModels(), .reply = {1 << 20, "--max-message-bytes"}}, identity);
  if (plan.ok()) {
    attention::CheckPlan(plan->attend);
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
