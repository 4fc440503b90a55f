// Loads a version of a model from its files, ready to serve.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/models/load_model.h"

namespace attention {

/// LoadModel, or a replacement by a test.
using LoadFunction =
    std::function<absl::StatusOr<LoadedModel>(const ModelSource& source, WeightsDtype dtype)>;

struct ReadyModel {
  LoadedModel loaded;
  /// The time to load, without the warm-up.
  absl::Duration load_time = absl::ZeroDuration();
};

struct VersionToLoad {
  ModelSource source;
  /// The fingerprint of the files to load.
  std::string fingerprint;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
};

/// Reads, checks and warms up a model on the calling thread. Returns the errors of `load`; ABORTED
/// when the files changed meanwhile; RESOURCE_EXHAUSTED when there is not enough memory.
absl::StatusOr<ReadyModel> LoadVersion(const VersionToLoad& version, const LoadFunction& load);

/// Returns the description of a load for the log: size, time, speed, unused tensors.
std::string DescribeLoad(const ReadyModel& model);

}  // namespace attention
