#include "client/load/encoded_load.h"

#include <utility>

#include "client/load/workload.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::StatusOr<EncodedLoad> EncodeLoad(const RequestMix& mix, const Protocol& protocol,
                                       const AttendResult& first) {
  EncodedLoad load{&protocol, {}, mix.weights()};
  for (size_t kind = 0; kind < mix.num_kinds(); ++kind) {
    EncodedRequest request;
    ASSIGN_OR_RETURN(request.bytes, mix.Encode(kind, protocol));
    ASSIGN_OR_RETURN(request.tokens, mix.CountTokens(kind, first));
    load.kinds.push_back(std::move(request));
  }
  return load;
}

}  // namespace attention
