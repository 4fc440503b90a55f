// The plan of a ModelInferRequest: an AttendPlan, and what the reply adds to its answer.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/codec/arena_message.h"
#include "proto/inference/open_inference.pb.h"
#include "server/services/open_inference/infer_inputs.h"
#include "server/services/open_inference/infer_parameters.h"
#include "server/services/open_inference/model_interface.h"
#include "server/services/open_inference/shared_memory.h"
#include "server/services/plan/plan_request.h"

namespace attention {

/// The limits of requests; all outlive the plan.
struct InferLimits {
  const ModelRepository& models;
  /// The caller.
  Caller caller = {};
  /// Null: shared memory is disabled.
  const SharedMemory* shared_memory = nullptr;
  /// Also the maximum size of inputs that are not in the message as packed bytes.
  ReplyLimit reply;
  PlanTerms terms = {};
};

/// Returns the cost of ReadInfer in bytes: all inputs except floats that are in the message as
/// packed bytes. Returns 0 when it is small. Requests may name `max_shared_bytes` of shared memory
/// in all; 0: none.
int64_t InferPlanningCost(const grpc::ByteBuffer& wire, int64_t max_shared_bytes);

/// The rows and keys that the weights of a sequence take in the padded tensor of all weights,
/// [batch_size, num_heads, query rows, keys + extra keys]. The extra keys follow in the last
/// columns.
struct WeightsRange {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_key = 0;
  int64_t keys = 0;
};

struct InferOutput {
  bool is_weights = false;
  std::string datatype;
  Shape shape;
  int64_t size_bytes = 0;
  /// For an output in shared memory:
  std::optional<RegionRange> range = {};
  std::shared_ptr<const SharedRegion> region = {};
};

/// The parts of the reply besides the memory of the answer.
struct InferAnswer {
  std::string model_name;
  std::string model_version;
  std::string id;
  /// The outputs; at least one.
  std::vector<InferOutput> outputs;
  std::vector<WeightsRange> weights_ranges;  // by sequence
  /// The number of extra keys of the weights' layer, which are the last columns of the weights.
  int64_t extra_keys = 0;
  /// Set when the request was computed.
  int64_t cached_tokens = 0;
};

struct InferPlan {
  AttendPlan attend;
  InferAnswer answer;
  InferParameters parameters;
};

/// A received request: the message, whose tensors' bytes are still in `wire`.
struct ReceivedInfer {
  ArenaMessage<inference::ModelInferRequest> message;
  grpc::ByteBuffer wire;
};

/// The identity of a request, as far as it could be read.
struct InferIdentity {
  std::string id;
  /// Empty: no model was found, or attention without a model.
  std::string model;
  int64_t version = 0;
};

/// Finds the model of a request, of which only the id, the name and the version are read. Sets
/// `identity`. Errors of FindTarget; PERMISSION_DENIED for a model that the caller may not use.
absl::StatusOr<InferTarget> Identify(const inference::ModelInferRequest& request,
                                     const InferLimits& limits, InferIdentity& identity);

/// Decodes and plans a request. Errors of PlanInfer and FindTarget.
absl::StatusOr<InferPlan> ReadInfer(const grpc::ByteBuffer& wire, const InferLimits& limits,
                                    InferIdentity& identity);

/// Decodes a request. INVALID_ARGUMENT when `wire` is no ModelInferRequest; the errors of `terms`.
absl::StatusOr<ReceivedInfer> DecodeInfer(const grpc::ByteBuffer& wire,
                                          const PlanTerms& terms = {});

/// Plans a request for the model `target`. Errors as the .proto lists them, in its terms.
absl::StatusOr<InferPlan> PlanInfer(const ReceivedInfer& request, const InferTarget& target,
                                    const InferLimits& limits);

}  // namespace attention
