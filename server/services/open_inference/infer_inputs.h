// The input tensors of an Open Inference request. Their names, datatypes, shapes and sizes must
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
  /// The bytes of the input in InferInputs::bytes, whose size agrees with datatype and shape.
  wire::PayloadReference reference;
};

struct InferInputs {
  std::map<std::string, InferInput> by_name;
  /// The message, followed by the tensors that were not in it as packed bytes.
  std::shared_ptr<const ReceivedBytes> bytes;
  /// The size of those tensors.
  int64_t appended_bytes = 0;

  /// Returns null when the request has no input of this name.
  const InferInput* Find(const std::string& name) const;
  /// Returns the elements of an INT32 or INT64 input.
  std::vector<int64_t> Integers(const InferInput& input) const;
};

/// The sources of inputs.
struct InputSources {
  /// The encoded request.
  const grpc::ByteBuffer& wire;
  /// The caller.
  const Caller& caller;
  /// Null: shared memory is disabled.
  const SharedMemory* shared_memory = nullptr;
  /// The maximum of InferInputs::appended_bytes.
  int64_t max_appended_bytes = 0;
  const PlanTerms& terms;
};

/// Returns the cost, in bytes, of reading the inputs that planning reads: integers, and inputs in
/// shared memory, of which at most `max_shared_bytes` count: more is refused.
int64_t BytesToRead(const inference::ModelInferRequest& request, int64_t max_shared_bytes);

/// Reads the inputs. `request` is the decoded envelope of `sources.wire`. INVALID_ARGUMENT names
/// the input, what was expected and what was found; RESOURCE_EXHAUSTED for too many bytes in shared
/// memory or as typed contents; errors of SharedMemory and CheckSharedMemory.
absl::StatusOr<InferInputs> ReadInputs(const inference::ModelInferRequest& request,
                                       const InferTarget& target, const InputSources& sources);

}  // namespace attention
