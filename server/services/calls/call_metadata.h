// What a call's metadata says about it.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/observability/request_record.h"
#include "server/scheduling/job.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"
#include "server/security/access.h"

namespace attention {

struct CallMetadata {
  Caller caller;
  RequestClass request_class;
  /// `x-request-id`, or, where that is none, made here.
  std::string request_id;
  /// Of `traceparent`; no ids when it is absent or malformed.
  TraceContext trace;
};

/// What a call that is refused has, too: its id and its trace.
CallMetadata IdentifyCall(const grpc::ServerContext& context);

/// Adds the rest. The tenant is the caller's, or else `attend-tenant`. Errors of Access;
/// INVALID_ARGUMENT for an `attend-priority` that is none, or a value that is too long. `rpc` is
/// what errors call it.
absl::Status ReadMetadata(const grpc::ServerContext& context, const Access& access,
                          std::string_view rpc, CallMetadata& metadata);

/// As asked for, or as high as the caller may have it.
void SetPriority(Priority priority, CallMetadata& metadata);

/// What of a record the metadata and the scheduler know.
void Record(const CallMetadata& metadata, RequestRecord& record);
/// Who it is that failed; nothing for a record of success.
void RecordPeer(const grpc::ServerContext& context, RequestRecord& record);
void Record(const BatchStats& stats, RequestRecord& record);

/// A call that ended without a record of its own, refused or failed. `rpc` is a literal.
RequestRecord RecordOf(const grpc::ServerContext& context, std::string_view rpc, TimePoint arrival,
                       const absl::Status& status);

/// Of an answer that was given up: nobody took it in time.
absl::Status NobodyTakesIt();

/// Trailers of a refusal: when to try again, and what was estimated. Nothing for other errors.
void AddRefusalTrailers(const absl::Status& status, grpc::ServerContext& context);

/// Whose work a call's is where callers share: its tenant's, or without one its connection's.
std::string OwnerOf(const grpc::ServerContext& context, const CallMetadata& metadata);

/// The call's deadline by the steady clock; TimePoint::max() without one.
TimePoint SteadyDeadline(const grpc::ServerContext& context, TimePoint now);

}  // namespace attention
