// One model, as `attend models NAME` shows it.
#pragma once

#include <optional>
#include <string>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// "12", or "12 / 4" with fewer key/value heads.
std::string HeadsText(int64_t num_heads, int64_t num_kv_heads);

/// What is slower than its type promises, in one line; "" when nothing is.
std::string EmulationWarning(const v1::Model& model);

/// What it takes, gives and keeps, in aligned lines; what became of loading it, where that is
/// known; and a table of its layers, in which equal ones that follow each other are one row.
std::string ModelDetails(const v1::Model& model, const std::optional<v1::ModelState>& state);

}  // namespace attention
