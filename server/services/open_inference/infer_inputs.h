// The input tensors of an Open Inference request: believed only when name, datatype, shape and size
// agree, wherever their bytes are.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/codec/payload.h"
#include "proto/codec/wire.h"
#include "proto/inference/open_inference.pb.h"
#include "server/services/open_inference/model_interface.h"
#include "server/services/open_inference/shared_memory.h"
#include "server/services/plan/plan_terms.h"

namespace attention {

struct InferInput {
  std::string datatype;
  Shape shape;
  /// Bytes of InferInputs::bytes, as many as datatype and shape ask for.
  wire::PayloadReference reference;
};

struct InferInputs {
  std::map<std::string, InferInput> by_name;
  /// The message, followed by what was not in it as packed bytes.
  std::shared_ptr<const ReceivedBytes> bytes;
  /// Bytes of the latter.
  int64_t appended_bytes = 0;

  /// Null when the request has none of the name.
  const InferInput* Find(const std::string& name) const;
  /// Elements of an INT32 or INT64 input.
  std::vector<int64_t> Integers(const InferInput& input) const;
};

/// What inputs are read from.
struct InputSources {
  /// The encoded request.
  const grpc::ByteBuffer& wire;
  /// Whose request it is.
  const Caller& caller;
  /// Null: switched off.
  const SharedMemory* shared_memory = nullptr;
  /// Of InferInputs::appended_bytes.
  int64_t max_appended_bytes = 0;
  const PlanTerms& terms;
};

/// What it costs to read those inputs that are read when the request is planned, in bytes:
/// integers, and what is in shared memory.
int64_t BytesToRead(const inference::ModelInferRequest& request);

/// `request` is the decoded envelope of `sources.wire`. INVALID_ARGUMENT names the input, what was
/// expected and what was found; RESOURCE_EXHAUSTED for too many bytes in shared memory or as typed
/// contents; errors of SharedMemory and CheckSharedMemory.
absl::StatusOr<InferInputs> ReadInputs(const inference::ModelInferRequest& request,
                                       const InferTarget& target, const InputSources& sources);

}  // namespace attention
