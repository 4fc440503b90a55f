// The answers of the server reflection protocol (grpc.reflection.v1): the services of a listener,
// and the files that declare their messages.
#pragma once

#include <string>
#include <vector>

#include "proto/grpc/reflection/v1/reflection.pb.h"

namespace attention {

/// Answers a request. `services` are the full names of the listener's services. Unknown names are
/// errors within the response, as the protocol demands. The answer depends only on compiled-in
/// descriptors.
grpc::reflection::v1::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

}  // namespace attention
