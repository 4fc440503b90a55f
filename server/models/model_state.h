// The states of the models of a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/kernels/linear/linear.h"

namespace attention {

enum class ModelPhase {
  kUnloaded,   // in the folder, not served
  kLoading,    // being read, checked and warmed
  kReady,      // served
  kFailed,     // the last attempt to load it failed
  kUnloading,  // withdrawn, but still used by running requests
};

struct ModelState {
  std::string name;
  /// The version; 0: the error concerns the name as a whole.
  int64_t version = 0;
  ModelPhase phase = ModelPhase::kUnloaded;
  /// Also true with kLoading and kFailed, while the version that was loaded earlier still serves.
  bool is_serving = false;
  /// The error of kFailed.
  absl::Status error = {};

  // Properties of the model that serves, or served last.
  std::string model_type = {};
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  int64_t weights_bytes = 0;  // 0 when its memory was freed
  int64_t read_bytes = 0;
  int64_t num_unused_tensors = 0;
  absl::Duration load_time = absl::ZeroDuration();
};

}  // namespace attention
