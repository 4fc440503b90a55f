// SetLogging changes what the server logs while it runs.
#pragma once

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/observability/requests.h"

namespace attention {

/// Applies the request and returns the new settings. INVALID_ARGUMENT for a value that is not in
/// the enum, after which nothing has changed.
absl::StatusOr<v1::Logging> SetLogging(const v1::SetLoggingRequest& request,
                                       RequestObserver& observer);

}  // namespace attention
