// A request of server reflection from the wire to its answer: never a crash, always an answer.
#include "server/services/admin/reflection.h"
#include "server/services/calls/message_limits.h"
#include "tests/fuzz/wire_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using grpc::reflection::v1::ServerReflectionResponse;
  grpc::ByteBuffer wire = attention::CutBytes(data, size, 13);
  grpc::reflection::v1::ServerReflectionRequest request;
  if (!attention::ParseSmallMessage(wire, attention::kMaxOpenMessageBytes, request).ok()) {
    return 0;
  }
  const ServerReflectionResponse response =
      attention::AnswerReflection(request, {"attention.v1.AttentionService"});
  if (response.message_response_case() == ServerReflectionResponse::MESSAGE_RESPONSE_NOT_SET) {
    abort();
  }
  return 0;
}
