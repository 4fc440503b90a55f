// One model, as `attend models NAME` shows it.
#pragma once

#include <optional>
#include <string>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Returns the number of heads: "12", or "12 / 4" with fewer key/value heads.
std::string HeadsText(int64_t num_heads, int64_t num_kv_heads);

/// Returns a warning about dtypes that the processor of the server only emulates; empty if there
/// are none.
std::string EmulationWarning(const v1::Model& model);

/// Returns aligned lines about inputs, outputs, weights and limits, and about loading if `state` is
/// known; then a table of the layers, in which successive equal layers share a row.
std::string ModelDetails(const v1::Model& model, const std::optional<v1::ModelState>& state);

}  // namespace attention
