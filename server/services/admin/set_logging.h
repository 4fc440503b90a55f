// SetLogging: what the server logs, changed while it runs.
#pragma once

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/observability/requests.h"

namespace attention {

/// Applies the request and says what is logged now. INVALID_ARGUMENT for a value that is none of
/// the enum's; nothing has changed then.
absl::StatusOr<v1::Logging> SetLogging(const v1::SetLoggingRequest& request,
                                       RequestObserver& observer);

}  // namespace attention
