#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/lib/attention_client.h"
#include "client/plot/token_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using ::grpc::health::v1::HealthCheckResponse;

constexpr char kHealthExamples[] =
    R"(A model that the server does not know is the error NOT_FOUND; with --watch and --wait, which wait
for it, it is SERVICE_UNKNOWN. A server that cannot be reached is UNREACHABLE there; the next
attempt follows within 2 s.

Examples:
  attend health
  attend health --model demo --timeout 500ms
  attend health --wait 30s && attend run --random 2x5x512
  attend health --watch --model gpt2

Exit codes: 0 all that was named is serving, 1 it is not, 2 wrong usage.)";

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kWatchLifetime = absl::Hours(24);
constexpr char kUnreachable[] = "UNREACHABLE";
constexpr char kServing[] = "SERVING";

struct HealthFlags {
  ClientOptions server;
  std::vector<std::string> services;
  std::vector<std::string> models;
  bool watch = false;
  std::optional<absl::Duration> wait;
  bool json = false;

  /// The services to ask about; "" is the server as a whole.
  std::vector<std::string> Names() const {
    std::vector<std::string> names = services;
    for (const std::string& model : models) {
      names.push_back(absl::StrCat("model/", model));
    }
    return names.empty() ? std::vector<std::string>{""} : names;
  }
};

/// Follows one service over broken connections. `on_state` gets each new state, with the error of
/// one that is UNREACHABLE, and returns whether to continue. Returns OK if it does not, or at
/// `until`.
using OnState = std::function<bool(const std::string& state, const std::string& error)>;
absl::Status Follow(const ClientOptions& options, const std::string& service, absl::Time until,
                    const OnState& on_state) {
  std::string last;
  bool goes_on = true;
  const auto tell = [&](const std::string& state, const std::string& error) {
    goes_on = state == last || on_state(state, error);
    last = state;
    return goes_on;
  };
  absl::Duration pause = kFirstPause;
  while (goes_on && absl::Now() < until) {
    const absl::Status status =
        WatchHealth(options, service, std::min(until, absl::Now() + kWatchLifetime),
                    [&](HealthCheckResponse::ServingStatus state) {
                      pause = kFirstPause;
                      return tell(HealthCheckResponse::ServingStatus_Name(state), "");
                    });
    if (status.code() == absl::StatusCode::kUnavailable) {
      tell(kUnreachable, std::string(status.message()));
    } else if (!status.ok() && status.code() != absl::StatusCode::kDeadlineExceeded) {
      return status;
    }
    if (goes_on) {
      absl::SleepFor(std::min(pause, std::max(absl::ZeroDuration(), until - absl::Now())));
      pause = std::min(2 * pause, kLongestPause);
    }
  }
  return absl::OkStatus();
}

std::string NameOf(const std::string& service) { return service.empty() ? "server" : service; }

absl::Status Check(const HealthFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  for (const std::string& service : flags.Names()) {
    RETURN_IF_ERROR(client->CheckHealth(service));
  }
  std::cout << kServing << "\n";
  return absl::OkStatus();
}

/// Waits for one service after the other. A service that has served is not asked again.
absl::Status WaitUntilServing(const HealthFlags& flags) {
  const absl::Time until = absl::Now() + *flags.wait;
  for (const std::string& service : flags.Names()) {
    std::string last = "no state", why;
    RETURN_IF_ERROR(Follow(flags.server, service, until,
                           [&](const std::string& state, const std::string& error) {
                             last = state;
                             why = error;
                             return state != kServing;
                           }));
    if (last != kServing) {
      return absl::DeadlineExceededError(absl::StrCat(NameOf(service), ": expected SERVING within ",
                                                      absl::FormatDuration(*flags.wait), ", found ",
                                                      last, why.empty() ? "" : ": ", why));
    }
  }
  std::cout << kServing << "\n";
  return absl::OkStatus();
}

/// Returns a line about a state: the time, the service, and the error of one that is UNREACHABLE.
std::string StateLine(const std::string& service, const std::string& state,
                      const std::string& error, bool as_json) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%Ez", absl::Now(), absl::LocalTimeZone());
  if (!as_json) {
    return ShownLine(absl::StrFormat("%s  %-12s  %s%s%s", time, NameOf(service), state,
                                     error.empty() ? "" : ": ", error)) +
           "\n";
  }
  nlohmann::json json = {{"time", time}, {"service", service}, {"status", state}};
  if (!error.empty()) {
    json["error"] = error;
  }
  return JsonText(json);
}

/// Prints changes until the program ends, or the server refuses the watch.
absl::Status Watch(const HealthFlags& flags) {
  const std::vector<std::string> names = flags.Names();
  std::mutex printing;
  std::vector<absl::Status> outcomes(names.size());
  std::vector<std::thread> watchers;
  for (size_t i = 0; i < names.size(); ++i) {
    watchers.emplace_back([&, i] {
      outcomes[i] = Follow(flags.server, names[i], absl::InfiniteFuture(),
                           [&, i](const std::string& state, const std::string& error) {
                             const std::lock_guard lock(printing);
                             std::cout << StateLine(names[i], state, error, flags.json)
                                       << std::flush;
                             return true;
                           });
    });
  }
  absl::Status outcome;
  for (size_t i = 0; i < names.size(); ++i) {
    watchers[i].join();
    outcome.Update(outcomes[i]);
  }
  return outcome;
}

void AddFlags(CLI::App& command, HealthFlags& flags) {
  AddServerFlags(command, flags.server);
  HelpGroup group(command);
  group
      .List("--service", flags.services, "SERVICE",
            "Full name of a service, or model/NAME, instead of the whole server; may be repeated")
      ->check(Accepts(ParseUtf8));
  group
      .List("--model", flags.models, "NAME",
            "Short for --service model/NAME; '*' is every model found at the server's start; may "
            "be repeated")
      ->check(Accepts(ParseUtf8));
  CLI::Option* const wait = group.Parsed("--wait", ParseDuration, Into(flags.wait), "DURATION",
                                         "Wait at most this long until all are serving");
  wait->check(IsPositiveDuration);
  CLI::Option* const watch =
      group.Switch("--watch", flags.watch, "Print each change, with the time; reconnect as needed");
  watch->excludes(wait);
  group.Switch("--json", flags.json, "Print a JSON object for each change")->needs(watch);
}

}  // namespace

void AddHealthCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<HealthFlags>();
  flags->server.timeout = absl::Seconds(5);
  CLI::App* const command =
      app.add_subcommand("health", "Exit 0 when the server, or some models, are serving");
  AddFlags(*command, *flags);
  command->footer(kHealthExamples);
  command->callback([flags, &exit_code] {
    (void)Connect(flags->server);  // refuses wrong flags, which waiting would take for an absence
    exit_code = ExitCodeOf(flags->watch              ? Watch(*flags)
                           : flags->wait.has_value() ? WaitUntilServing(*flags)
                                                     : Check(*flags));
  });
}

}  // namespace attention
