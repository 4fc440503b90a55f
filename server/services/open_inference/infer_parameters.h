// The parameters of an Open Inference request, and of its tensors.
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {

using ParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

struct InferParameters {
  // Of the attention that is asked for; those not given are absent.
  std::optional<bool> causal = {};
  std::optional<double> scale = {};
  std::optional<double> softcap = {};
  std::optional<int64_t> window = {};
  std::optional<int64_t> layer = {};
  // The protocol's own. 0: the usual priority; otherwise 1 is the most urgent.
  uint64_t priority = 0;
  /// Microseconds from arrival; 0: none.
  int64_t timeout_us = 0;
  bool wants_empty_final_response = false;
};

/// INVALID_ARGUMENT names the parameter, what was expected and what was found.
absl::StatusOr<InferParameters> ReadParameters(const ParameterMap& parameters);

/// A part of a shared-memory region: bytes from `offset` on.
struct RegionRange {
  std::string region;
  int64_t offset = 0;
  int64_t byte_size = 0;
};

/// Where the parameters of the tensor `owner`, as errors name it, say that it lies: null without
/// any. INVALID_ARGUMENT as above.
absl::StatusOr<std::optional<RegionRange>> ReadRegionRange(const ParameterMap& parameters,
                                                           const std::string& owner);

}  // namespace attention
