// The parameters of an Open Inference request, and of its tensors.
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {

using ParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

struct InferParameters {
  /// The options that the parameters of OptionParameters set.
  v1::AttentionOptions options;
  std::optional<int64_t> layer = {};
  /// The layer of a whole stack whose weights are wanted.
  std::optional<int64_t> weights_layer = {};
  // Parameters of the protocol. Priority 0: the usual one; otherwise 1 is the highest.
  uint64_t priority = 0;
  /// The timeout in microseconds from arrival; 0: none.
  int64_t timeout_us = 0;
  bool wants_empty_final_response = false;
};

/// Reads the parameters of a request. INVALID_ARGUMENT names the parameter, what was expected and
/// what was found.
absl::StatusOr<InferParameters> ReadParameters(const ParameterMap& parameters);

/// A range of bytes in a shared-memory region.
struct RegionRange {
  std::string region;
  int64_t offset = 0;
  int64_t byte_size = 0;
};

/// Reads the shared-memory range of a tensor from its parameters; null without any. Errors name the
/// tensor `owner`. INVALID_ARGUMENT as above.
absl::StatusOr<std::optional<RegionRange>> ReadRegionRange(const ParameterMap& parameters,
                                                           const std::string& owner);

}  // namespace attention
