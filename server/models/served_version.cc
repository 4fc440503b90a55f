#include "server/models/served_version.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log/log.h"
#include "server/models/posted_states.h"

namespace attention {
namespace {

std::string NameInLog(const ModelState& state) {
  return state.version == kWholeName
             ? absl::StrCat("model ", state.name)
             : absl::StrCat("model ", state.name, " version ", state.version);
}

}  // namespace

ServedVersion::ServedVersion(const ServingEnvironment& environment, const std::string& name,
                             int64_t number)
    : environment_(environment), state_{.name = name, .version = number} {}

bool ServedVersion::NeedsLoading(Occasion occasion) const {
  const bool is_current = state_.is_serving && state_.phase == ModelPhase::kReady &&
                          found_.status.ok() && loaded_fingerprint_ == found_.fingerprint;
  const bool is_known_failure =
      state_.phase == ModelPhase::kFailed && failed_fingerprint_ == found_.fingerprint;
  return !is_current && !(is_known_failure && occasion == Occasion::kPoll);
}

void ServedVersion::Load() {
  if (!found_.status.ok()) {
    SetFailed(found_.status);
    failed_fingerprint_ = found_.fingerprint;
    return;
  }
  absl::StatusOr<ReadyModel> ready =
      LoadVersion({.source = {state_.name, state_.version, found_.folder},
                   .fingerprint = found_.fingerprint,
                   .weights_dtype = environment_.weights_dtype},
                  environment_.load);
  if (ready.ok()) {
    Publish(*std::move(ready));
  } else {
    SetFailed(ready.status());
    failed_fingerprint_ = found_.fingerprint;
  }
}

void ServedVersion::Publish(ReadyModel ready) {
  const std::string description = DescribeLoad(ready);
  const ModelInfo& info = ready.loaded.model->info();
  ModelState serving = {.name = state_.name,
                        .version = state_.version,
                        .phase = ModelPhase::kReady,
                        .is_serving = true,
                        .model_type = info.model_type,
                        .weights_dtype = info.weights_dtype,
                        .weights_bytes = info.weights_bytes,
                        .read_bytes = ready.loaded.read_bytes,
                        .num_unused_tensors = std::ssize(ready.loaded.unused_tensors),
                        .load_time = ready.load_time};
  std::string fingerprint = found_.fingerprint;
  const std::shared_ptr<const Model> model = environment_.share(std::move(ready.loaded.model));
  environment_.repository.Publish(model);
  // All that can throw is done: the state never claims a model that is not published.
  state_ = std::move(serving);
  loaded_fingerprint_ = std::move(fingerprint);
  model_ = model;
  Log(LogLevel::kInfo, absl::StrCat(NameInLog(state_), ": serving; ", description));
  if (const absl::Status& tokenizer = ready.loaded.tokenizer_status; !tokenizer.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat(NameInLog(state_), ": takes no text; ", std::string(tokenizer.message())));
  }
}

void ServedVersion::SetFailed(const absl::Status& error) {
  state_.phase = ModelPhase::kFailed;
  state_.error = error;
  failed_fingerprint_.clear();
  Log(LogLevel::kError,
      absl::StrCat(
          NameInLog(state_), ": ", std::string(error.message()),
          state_.is_serving ? "; the version that was loaded before stays in service" : ""));
}

void ServedVersion::Withdraw() {
  if (state_.is_serving) {
    environment_.repository.Withdraw(state_.name, state_.version);
    Log(LogLevel::kInfo, absl::StrCat(NameInLog(state_), ": unloaded"));
  }
  state_.is_serving = false;
  state_.phase = ModelPhase::kUnloaded;
  state_.error = absl::OkStatus();
}

absl::StatusOr<VersionToLoad> ServedVersion::Source() const {
  if (FingerprintOf(found_.folder) != loaded_fingerprint_) {
    return absl::AbortedError(
        absl::StrCat(NameInLog(state_), ": its files have changed since it was loaded"));
  }
  return VersionToLoad{.source = {state_.name, state_.version, found_.folder},
                       .fingerprint = loaded_fingerprint_,
                       .weights_dtype = state_.weights_dtype};
}

}  // namespace attention
