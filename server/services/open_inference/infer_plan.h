// What a ModelInferRequest asks for: an AttendPlan, and what the reply says around its answer.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/inference/open_inference.pb.h"
#include "server/services/open_inference/infer_inputs.h"
#include "server/services/open_inference/infer_parameters.h"
#include "server/services/open_inference/model_interface.h"
#include "server/services/open_inference/shared_memory.h"
#include "server/services/plan/plan_request.h"

namespace attention {

/// What requests are checked against; all outlive it.
struct InferLimits {
  const ModelRepository& models;
  /// Whose request it is.
  Caller caller = {};
  /// Null: switched off.
  const SharedMemory* shared_memory = nullptr;
  ReplyLimit reply;
  /// Of inputs that are not in the message as packed bytes.
  int64_t max_appended_bytes = 0;
  PlanTerms terms = {};
};

/// What ReadInfer would take, in bytes that it works through: all but tensors of floats that are in
/// the message as packed bytes. 0 when that is little. `has_shared_memory`: requests may name some.
int64_t InferPlanningCost(const grpc::ByteBuffer& wire, bool has_shared_memory);

/// Where a sequence's weights, [heads, rows, keys] and the layer's own keys, stand in the padded
/// tensor.
struct WeightsPlace {
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
  /// In shared memory:
  std::optional<RegionRange> range = {};
  std::shared_ptr<const SharedRegion> region = {};
};

/// What becomes the reply, together with the memory of the answer.
struct InferAnswer {
  std::string model_name;
  std::string model_version;
  std::string id;
  /// At least one.
  std::vector<InferOutput> outputs;
  std::vector<WeightsPlace> weights_places;  // by sequence
  /// The layer's own, the last columns of the weights.
  int64_t extra_keys = 0;
};

struct InferPlan {
  AttendPlan attend;
  InferAnswer answer;
  InferParameters parameters;
};

/// A received request: the message, its tensors' bytes still in `wire`.
struct ReceivedInfer {
  inference::ModelInferRequest message;
  grpc::ByteBuffer wire;
};

/// Whose request it is, as far as it could be understood.
struct InferIdentity {
  std::string id;
  /// Empty: no model was found.
  std::string model;
  int64_t version = 0;
};

/// Decodes and plans a request. Errors as PlanInfer and FindTarget.
absl::StatusOr<InferPlan> ReadInfer(const grpc::ByteBuffer& wire, const InferLimits& limits,
                                    InferIdentity& identity);

/// The parts of it. INVALID_ARGUMENT when `wire` is no ModelInferRequest.
absl::StatusOr<ReceivedInfer> DecodeInfer(const grpc::ByteBuffer& wire);

/// `target` is the model of `request`. Errors as the .proto lists them, in its words.
absl::StatusOr<InferPlan> PlanInfer(const ReceivedInfer& request, const InferTarget& target,
                                    const InferLimits& limits);

}  // namespace attention
