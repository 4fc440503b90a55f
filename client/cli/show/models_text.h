// Models, their states and their verification, as `attend models` shows them.
#pragma once

#include <string>
#include <vector>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Returns a table with a row for each model.
std::string ModelsTable(const std::vector<v1::Model>& models);

/// Returns a table with a row for each version, then the errors of those that failed.
std::string StatesText(const std::vector<v1::ModelState>& states);

/// Returns, for each model, a table of how its weights' dtype differs from FP32.
std::string VerificationsText(const std::vector<v1::VerifyModelResponse>& verifications);

}  // namespace attention
