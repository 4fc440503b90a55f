#include "client/lib/health_watch.h"

#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/lib/blocking_call.h"
#include "client/lib/channel.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"
#include "proto/codec/envelope.h"

namespace attention {

absl::Status WatchHealth(const ClientOptions& options, const std::string& service, absl::Time until,
                         const OnHealth& on_health) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options.connection));
  grpc::GenericStub stub(channel);
  BlockingStream stream(stub, "/grpc.health.v1.Health/Watch", Encoder().Encode(request),
                        until - absl::Now());
  grpc::ByteBuffer bytes;
  while (stream.Read(bytes)) {
    ASSIGN_OR_RETURN(const Received<grpc::health::v1::HealthCheckResponse> received,
                     Decode<grpc::health::v1::HealthCheckResponse>(bytes));
    if (!on_health(received.message.status())) {
      return absl::OkStatus();
    }
  }
  const absl::Status status = stream.Finish();
  return status.ok()
             ? absl::UnavailableError(
                   absl::StrCat("server ", options.connection.server, ": the watch has ended"))
             : absl::Status(status.code(), absl::StrCat("server ", options.connection.server, ": ",
                                                        std::string(status.message())));
}

}  // namespace attention
