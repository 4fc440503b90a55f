// How a server's health changes, as it tells.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lib/attention_client.h"
#include "proto/grpc/health/v1/health.pb.h"

namespace attention {

/// Hears of a state; returns whether to go on.
using OnHealth = std::function<bool(grpc::health::v1::HealthCheckResponse::ServingStatus status)>;

/// grpc.health.v1 Watch of `service`, named as CheckHealth has it: calls `on_health` with the state
/// now and after each change, on this thread, until it returns false (OK), `until` has passed
/// (DEADLINE_EXCEEDED), or the call ends (its status; UNAVAILABLE when the server goes). A service
/// that the server does not know is SERVICE_UNKNOWN, and may come to be. The timeout of `options`
/// does not count here.
absl::Status WatchHealth(const ClientOptions& options, const std::string& service, absl::Time until,
                         const OnHealth& on_health);

}  // namespace attention
