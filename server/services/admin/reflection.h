// What the server reflection protocol (grpc.reflection.v1) answers: the services of a listener, and
// the files that declare their messages.
#pragma once

#include <string>
#include <vector>

#include "proto/grpc/reflection/v1/reflection.pb.h"

namespace attention {

/// `services` are the full names of what the listener serves. What is not found is an error within
/// the response, by the protocol. Depends on nothing but what is compiled in.
grpc::reflection::v1::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

}  // namespace attention
