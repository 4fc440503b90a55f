// Names in errors, and errors of native requests in the terms of Open Inference requests.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention {

/// Returns the names that errors use: `input "query"`, `output "weights"`, `parameter "layer"`.
std::string InputName(const std::string& name);
std::string OutputName(const std::string& name);
std::string ParameterName(const std::string& name);

/// Returns the error of a native request with the names that its fields have in an Open Inference
/// request.
absl::Status WithOpenInferenceNames(const absl::Status& status);

}  // namespace attention
