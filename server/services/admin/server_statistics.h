// GetStatistics: counts since the start, and the current state of the server.
#pragma once

#include "proto/attention/v1/attention.pb.h"
#include "server/observability/requests.h"
#include "server/scheduling/executor.h"
#include "server/security/caller.h"
#include "server/sessions/session_table.h"

namespace attention {

/// The sources of the statistics, and the time when the server started.
struct StatisticsSources {
  const RequestObserver& observer;
  const Executor& executor;
  const SessionTable& sessions;
  TimePoint start;
};

/// Returns the statistics, with those models that the caller may use.
v1::ServerStatistics DescribeStatistics(const StatisticsSources& sources, const Caller& caller);

}  // namespace attention
