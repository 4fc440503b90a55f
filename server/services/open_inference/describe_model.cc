#include "server/services/open_inference/describe_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

using inference::RepositoryIndexResponse;

constexpr char kServerName[] = "attend";
constexpr char kPlatform[] = "attend_onednn";
constexpr char kBackend[] = "attend";

void Describe(const TensorInterface& tensor,
              inference::ModelMetadataResponse::TensorMetadata& wire) {
  wire.set_name(tensor.name);
  wire.set_datatype(tensor.datatypes.front());
  wire.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
}

inference::DataType DataTypeOf(const TensorInterface& tensor) {
  inference::DataType type = inference::TYPE_INVALID;
  const bool is_known =
      inference::DataType_Parse(absl::StrCat("TYPE_", tensor.datatypes.front()), &type);
  return is_known ? type : inference::TYPE_INVALID;
}

void DescribeModelParameters(const ModelInfo& info, inference::ModelConfig& config) {
  auto& parameters = *config.mutable_parameters();
  parameters["model_type"].set_string_value(info.model_type);
  parameters["num_layers"].set_string_value(absl::StrCat(info.layers.size()));
  parameters["weights_dtype"].set_string_value(std::string(Name(info.weights_dtype)));
}

void Set(int64_t count, int64_t ns, inference::StatisticDuration& wire) {
  wire.set_count(static_cast<uint64_t>(count));
  wire.set_ns(static_cast<uint64_t>(std::max<int64_t>(0, ns)));
}

RepositoryIndexResponse::ModelIndex Entry(const std::string& name, int64_t version,
                                          const char* state) {
  RepositoryIndexResponse::ModelIndex entry;
  entry.set_name(name);
  entry.set_version(version == 0 ? "" : absl::StrCat(version));
  entry.set_state(state);
  return entry;
}

const char* StateName(const ModelState& state) {
  switch (state.phase) {
    case ModelPhase::kLoading:
      return "LOADING";
    case ModelPhase::kUnloading:
      return "UNLOADING";
    default:
      return "UNAVAILABLE";
  }
}

}  // namespace

inference::ServerMetadataResponse DescribeServer(const ServerExtensions& has) {
  inference::ServerMetadataResponse metadata;
  metadata.set_name(kServerName);
  metadata.set_version(ATTEND_VERSION);
  const std::pair<const char*, bool> extensions[] = {
      {"model_configuration", true}, {"model_repository", has.repository},
      {"parameters", true},          {"schedule_policy", true},
      {"statistics", true},          {"system_shared_memory", has.shared_memory}};
  for (const auto& [name, is_on] : extensions) {
    if (is_on) {
      metadata.add_extensions(name);
    }
  }
  return metadata;
}

absl::StatusOr<inference::CudaSharedMemoryStatusResponse> DescribeCudaMemory(
    const inference::CudaSharedMemoryStatusRequest& request) {
  if (request.name().empty()) {
    return inference::CudaSharedMemoryStatusResponse();
  }
  return absl::NotFoundError(absl::StrCat(
      "name: expected none, as no CUDA memory is ever registered, found \"", request.name(), "\""));
}

inference::ModelMetadataResponse DescribeMetadata(const InferTarget& target,
                                                  const std::vector<std::string>& versions) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(target.name);
  metadata.set_platform(kPlatform);
  for (const std::string& version : versions) {
    metadata.add_versions(version);
  }
  const ModelInterface interface = InterfaceOf(target);
  for (const TensorInterface& tensor : interface.inputs) {
    Describe(tensor, *metadata.add_inputs());
  }
  for (const TensorInterface& tensor : interface.outputs) {
    Describe(tensor, *metadata.add_outputs());
  }
  return metadata;
}

inference::ModelConfig DescribeConfig(const InferTarget& target) {
  inference::ModelConfig config;
  config.set_name(target.name);
  config.set_platform(kPlatform);
  config.set_backend(kBackend);
  config.mutable_model_transaction_policy()->set_decoupled(false);
  const ModelInterface interface = InterfaceOf(target);
  for (const TensorInterface& tensor : interface.inputs) {
    inference::ModelInput& input = *config.add_input();
    input.set_name(tensor.name);
    input.set_data_type(DataTypeOf(tensor));
    input.mutable_dims()->Assign(tensor.shape.begin(), tensor.shape.end());
    input.set_optional(tensor.is_optional && !tensor.is_required_in_metadata);
  }
  for (const TensorInterface& tensor : interface.outputs) {
    inference::ModelOutput& output = *config.add_output();
    output.set_name(tensor.name);
    output.set_data_type(DataTypeOf(tensor));
    output.mutable_dims()->Assign(tensor.shape.begin(), tensor.shape.end());
  }
  if (target.model != nullptr) {
    DescribeModelParameters(target.model->info(), config);
  }
  return config;
}

inference::ModelStatistics DescribeStatistics(const InferTarget& target,
                                              const RequestCounts& counts) {
  inference::ModelStatistics wire;
  wire.set_name(target.name);
  wire.set_version(absl::StrCat(target.version));
  wire.set_last_inference(static_cast<uint64_t>(counts.last_success_unix_ms));
  wire.set_inference_count(static_cast<uint64_t>(counts.succeeded));
  wire.set_execution_count(static_cast<uint64_t>(std::llround(counts.executions)));
  inference::InferStatistics& infer = *wire.mutable_inference_stats();
  Set(counts.succeeded, counts.receive_ns + counts.queue_ns + counts.compute_ns + counts.send_ns,
      *infer.mutable_success());
  Set(counts.failed + counts.refused, counts.unsuccessful_ns, *infer.mutable_fail());
  Set(counts.succeeded, counts.queue_ns, *infer.mutable_queue());
  Set(counts.succeeded, 0, *infer.mutable_compute_input());
  Set(counts.succeeded, counts.compute_ns, *infer.mutable_compute_infer());
  Set(counts.succeeded, 0, *infer.mutable_compute_output());
  return wire;
}

std::vector<RepositoryIndexResponse::ModelIndex> DescribeIndex(
    const std::vector<InferTarget>& served, const std::vector<ModelState>& states,
    bool shows_errors) {
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, RepositoryIndexResponse::ModelIndex> entries;
  for (const InferTarget& target : served) {
    entries[{target.name, target.version}] = Entry(target.name, target.version, "READY");
  }
  for (const ModelState& state : states) {
    auto& entry = entries[{state.name, state.version}];
    if (entry.name().empty()) {
      entry = Entry(state.name, state.version, StateName(state));
    }
    // Also when an older version serves: the last attempt to load a newer one failed.
    if (state.phase == ModelPhase::kFailed) {
      entry.set_reason(shows_errors
                           ? std::string(state.error.message())
                           : "loading failed; callers with the admin right get the reason");
    } else if (state.phase == ModelPhase::kUnloaded) {
      entry.set_reason("unloaded");
    }
  }
  std::vector<RepositoryIndexResponse::ModelIndex> index;
  index.reserve(entries.size());
  for (auto& [key, entry] : entries) {
    index.push_back(std::move(entry));
  }
  return index;
}

}  // namespace attention
