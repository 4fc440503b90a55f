#include "server/services/admin/set_logging.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/log/log.h"

namespace attention {
namespace {

// The enumerators are in the same order.
LogLevel FromWire(v1::Logging::Level level) { return static_cast<LogLevel>(level); }
LoggedRequests FromWire(v1::Logging::Requests requests) {
  return static_cast<LoggedRequests>(requests);
}
v1::Logging::Level ToWire(LogLevel level) { return static_cast<v1::Logging::Level>(level); }
v1::Logging::Requests ToWire(LoggedRequests requests) {
  return static_cast<v1::Logging::Requests>(requests);
}
static_assert(static_cast<int>(LogLevel::kError) == v1::Logging::ERROR);
static_assert(static_cast<int>(LogLevel::kInfo) == v1::Logging::INFO);
static_assert(static_cast<int>(LoggedRequests::kAll) == v1::Logging::ALL);
static_assert(static_cast<int>(LoggedRequests::kFailed) == v1::Logging::FAILED);

absl::Status NoSuchValue(const char* field, const char* expected, int found) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected ", expected, ", found ", found));
}

}  // namespace

absl::StatusOr<v1::Logging> SetLogging(const v1::SetLoggingRequest& request,
                                       RequestObserver& observer) {
  if (!v1::Logging::Level_IsValid(request.level())) {
    return NoSuchValue("level", "DEBUG (0), INFO (1), WARNING (2) or ERROR (3)", request.level());
  }
  if (!v1::Logging::Requests_IsValid(request.requests())) {
    return NoSuchValue("requests", "NONE (0), FAILED (1) or ALL (2)", request.requests());
  }
  v1::Logging now;
  now.set_level(request.has_level() ? request.level() : ToWire(CurrentLogLevel()));
  now.set_requests(request.has_requests() ? request.requests() : ToWire(observer.logged()));
  if (!request.has_level() && !request.has_requests()) {
    return now;
  }
  const LogEvent event = {.text = "logging was changed",
                          .fields = {{"log_level", v1::Logging::Level_Name(now.level())},
                                     {"log_requests", v1::Logging::Requests_Name(now.requests())}}};
  // The event is logged at the old level or at the new one, whichever logs more.
  const bool is_logged_before = CurrentLogLevel() <= event.level;
  if (is_logged_before) {
    Log(event);
  }
  SetLogLevel(FromWire(now.level()));
  observer.set_logged(FromWire(now.requests()));
  if (!is_logged_before) {
    Log(event);
  }
  return now;
}

}  // namespace attention
