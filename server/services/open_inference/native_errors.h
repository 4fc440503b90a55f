// Errors of the native API's requests, said of what an Open Inference request has.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention {

/// `input "query"`, `output "weights"`, `parameter "layer"`: how errors name what a request has.
std::string InputName(const std::string& name);
std::string OutputName(const std::string& name);
std::string ParameterName(const std::string& name);

/// `status` with the field that it begins with, and those it ends with, renamed.
absl::Status InOpenInferenceWords(const absl::Status& status);

}  // namespace attention
