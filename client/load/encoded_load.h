// The requests of a load, ready to be sent.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/protocol.h"
#include "client/load/request_mix.h"

namespace attention {

struct EncodedRequest {
  grpc::ByteBuffer bytes;  // shared by all calls
  int64_t tokens = 0;      // query rows
};

/// Borrows the protocol.
struct EncodedLoad {
  const Protocol* protocol = nullptr;
  std::vector<EncodedRequest> kinds;
  /// How often each comes.
  std::vector<double> weights;
};

/// Encodes each kind of `mix` once, so that sending one costs nothing more. The tokens of texts are
/// those of `first`, an answer to them. Errors of Protocol::Encode and QueryRows.
absl::StatusOr<EncodedLoad> EncodeLoad(const RequestMix& mix, const Protocol& protocol,
                                       const AttendResult& first);

}  // namespace attention
