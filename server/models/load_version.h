// From a version's files to a model that can serve.
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

/// LoadModel, or what a test puts in its place.
using LoadFunction =
    std::function<absl::StatusOr<LoadedModel>(const ModelSource& source, WeightsDtype dtype)>;

struct ReadyModel {
  LoadedModel loaded;
  /// Without the warm-up.
  absl::Duration load_time = absl::ZeroDuration();
};

struct VersionToLoad {
  ModelSource source;
  /// Of the files that are meant.
  std::string fingerprint;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
};

/// Reads, checks and warms up on the calling thread. Errors of `load`; ABORTED when the files
/// changed meanwhile; RESOURCE_EXHAUSTED when memory does not suffice.
absl::StatusOr<ReadyModel> LoadVersion(const VersionToLoad& version, const LoadFunction& load);

/// What the log says of it: size, time, speed, what was not used.
std::string DescribeLoad(const ReadyModel& model);

}  // namespace attention
