// The descriptions of models in the Open Inference Protocol.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/inference/open_inference.pb.h"
#include "server/models/model_state.h"
#include "server/observability/requests.h"
#include "server/services/open_inference/model_interface.h"

namespace attention {

/// The extensions of the protocol that not every server has, or not for every caller.
struct ServerExtensions {
  bool repository = false;
  bool shared_memory = false;
};
inference::ServerMetadataResponse DescribeServer(const ServerExtensions& has);

/// Returns no description; NOT_FOUND for a name.
absl::StatusOr<inference::CudaSharedMemoryStatusResponse> DescribeCudaMemory(
    const inference::CudaSharedMemoryStatusRequest& request);

/// Describes a model. `versions` are all served versions.
inference::ModelMetadataResponse DescribeMetadata(const InferTarget& target,
                                                  const std::vector<std::string>& versions);
inference::ModelConfig DescribeConfig(const InferTarget& target);

inference::ModelStatistics DescribeStatistics(const InferTarget& target,
                                              const RequestCounts& counts);

/// Lists all served models, and the models of the folder that do not serve. Errors of loading may
/// name files of the server: without `shows_errors` they are left out.
std::vector<inference::RepositoryIndexResponse::ModelIndex> DescribeIndex(
    const std::vector<InferTarget>& served, const std::vector<ModelState>& states,
    bool shows_errors);

}  // namespace attention
