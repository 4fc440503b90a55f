#include "client/cli/show/models_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/show/model_details.h"
#include "client/cli/show/text_table.h"

namespace attention {
namespace {

/// Returns `count` as text; "-" for 0, which means that the model has none.
std::string CountOrDash(int64_t count) { return count == 0 ? "-" : absl::StrCat(count); }

std::string BytesOrDash(int64_t bytes) { return bytes == 0 ? "-" : Mebibytes(bytes); }

std::string VerificationText(const v1::VerifyModelResponse& verified) {
  const std::string name = absl::StrCat(verified.model(), " version ", verified.version(), ": ");
  if (verified.differences().empty()) {
    return absl::StrCat(name, verified.weights_dtype(), " weights, which are exact\n");
  }
  std::vector<std::vector<std::string>> rows = {
      {"", "MAX ABS ERROR", "RELATIVE L2", "TOP-1 AGREEMENT"}};
  for (const v1::VerifyModelResponse::Difference& difference : verified.differences()) {
    rows.push_back({difference.of(), absl::StrFormat("%.2e", difference.max_abs_error()),
                    absl::StrFormat("%.2e", difference.relative_l2()),
                    difference.has_top1_agreement()
                        ? absl::StrFormat("%.1f %%", 100 * difference.top1_agreement())
                        : "-"});
  }
  return absl::StrCat(name, verified.weights_dtype(), " weights beside fp32, over ",
                      verified.num_tokens(), " tokens\n", TextTable(rows));
}

}  // namespace

std::string ModelsTable(const std::vector<v1::Model>& models) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "TYPE", "LAYERS", "D_MODEL",
                                                 "HEADS", "WEIGHTS", "CAUSAL", "VOCABULARY",
                                                 "POSITIONS"}};
  for (const v1::Model& model : models) {
    rows.push_back({model.name(), absl::StrCat(model.version()), model.model_type(),
                    absl::StrCat(model.num_layers()), absl::StrCat(model.d_model()),
                    HeadsText(model.num_heads(), model.num_kv_heads()),
                    absl::StrCat(model.weights_dtype(), " ", Mebibytes(model.weights_bytes())),
                    model.causal() ? "yes" : "no", CountOrDash(model.vocab_size()),
                    CountOrDash(model.max_positions())});
  }
  return TextTable(rows);
}

std::string StatesText(const std::vector<v1::ModelState>& states) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VERSION", "PHASE", "SERVING", "TYPE", "WEIGHTS", "MEMORY", "READ", "LOADED IN"}};
  std::string errors;
  for (const v1::ModelState& state : states) {
    const std::string version = state.version() == 0 ? "-" : absl::StrCat(state.version());
    const bool was_loaded = state.load_ns() > 0;
    rows.push_back({state.name(), version, v1::ModelState::Phase_Name(state.phase()),
                    state.serving() ? "yes" : "no",
                    state.model_type().empty() ? "-" : state.model_type(),
                    was_loaded ? state.weights_dtype() : "-", BytesOrDash(state.weights_bytes()),
                    BytesOrDash(state.read_bytes()),
                    was_loaded ? absl::StrFormat("%.2f s", 1e-9 * state.load_ns()) : "-"});
    if (!state.error().empty()) {
      absl::StrAppend(&errors, "\n", state.name(),
                      state.version() == 0 ? "" : absl::StrCat(":", version), ": ", state.error(),
                      "\n");
    }
  }
  return TextTable(rows) + errors;
}

std::string VerificationsText(const std::vector<v1::VerifyModelResponse>& verifications) {
  std::string text;
  for (const v1::VerifyModelResponse& verified : verifications) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", VerificationText(verified));
  }
  return text;
}

}  // namespace attention
