// The metadata of a call.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/observability/request_record.h"
#include "server/scheduling/batch_stats.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"
#include "server/security/access.h"

namespace attention {

struct CallMetadata {
  Caller caller;
  RequestClass request_class;
  /// The `x-request-id`; if there is none, an id that is made here.
  std::string request_id;
  /// The trace of `traceparent`; without ids if it is absent or malformed.
  TraceContext trace;
  /// The address of the client, which gRPC forgets when the call is cancelled.
  std::string peer;
};

/// Returns metadata with the request id, the trace and the peer only, which refused calls have too.
CallMetadata IdentifyCall(const grpc::ServerContext& context);

/// Adds the caller, the priority and the tenant. The tenant is the caller's, or else
/// `attend-tenant`. Returns the errors of Access; INVALID_ARGUMENT for an invalid
/// `attend-priority`, or a value that is too long or not printable.
absl::Status ReadMetadata(const grpc::ServerContext& context, const Access& access,
                          CallMetadata& metadata);

/// Sets the priority, at most to the caller's highest.
void SetPriority(Priority priority, CallMetadata& metadata);

/// Sets the request id, the trace, the tenant and the peer of a record.
void Record(const CallMetadata& metadata, RequestRecord& record);
/// Sets the scheduler's measurements of a record.
void Record(const BatchStats& stats, RequestRecord& record);

/// Returns the record of a call that failed or was refused without a record of its own. `rpc` is a
/// literal.
RequestRecord RecordOf(const grpc::ServerContext& context, std::string_view rpc, TimePoint arrival,
                       const absl::Status& status);

/// Returns the error of an answer that was dropped because its caller did not read it in time.
absl::Status ReplyNotRead();

/// Adds the trailers of a refusal: when to retry, and the estimated wait. Other errors have none.
void AddRefusalTrailers(const absl::Status& status, grpc::ServerContext& context);

/// Logs who uses the right of an administrator, and what for. If the call fails, its record
/// (--log-requests) has the error; a call that succeeds has no record.
void LogAdministration(const grpc::ServerContext& context, const Caller& caller,
                       std::string_view rpc, const google::protobuf::Message& request);

/// Returns the owner of a call's work for fair sharing: the tenant, together with the account,
/// since its name may not be proven; without a tenant the connection.
std::string OwnerOf(const grpc::ServerContext& context, const CallMetadata& metadata);

/// Returns the call's deadline by the steady clock; TimePoint::max() without one.
TimePoint SteadyDeadline(const grpc::ServerContext& context, TimePoint now);

}  // namespace attention
