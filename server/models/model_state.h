// What became of the models of a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/kernels/linear.h"

namespace attention {

enum class ModelPhase {
  kUnloaded,   // in the folder, not served
  kLoading,    // being read, checked and warmed
  kReady,      // served
  kFailed,     // the last attempt to load it failed
  kUnloading,  // taken out; requests that began with it are still under way
};

struct ModelState {
  std::string name;
  /// 0: what is wrong concerns the name as a whole.
  int64_t version = 0;
  ModelPhase phase = ModelPhase::kUnloaded;
  /// Also true beside kLoading and kFailed, when what was loaded earlier still serves.
  bool is_serving = false;
  /// Of kFailed.
  absl::Status error = {};

  // Of what serves, or served last.
  std::string model_type = {};
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  int64_t weights_bytes = 0;
  int64_t read_bytes = 0;
  int64_t num_unused_tensors = 0;
  absl::Duration load_time = absl::ZeroDuration();
};

}  // namespace attention
