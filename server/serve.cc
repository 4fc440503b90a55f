#include "server/serve.h"

#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/numa.h"
#include "server/library_log.h"
#include "server/log/log.h"
#include "server/memory_need.h"
#include "server/process.h"
#include "server/security/exposure.h"
#include "server/server.h"

namespace attention {
namespace {

// Longer than any model takes to load. The service manager has a limit of its own.
constexpr absl::Duration kLoadingTime = absl::Hours(24);

// What the end takes beyond the time that calls have: the service manager waits as long before it
// kills the server.
constexpr absl::Duration kEndingTime = absl::Seconds(10);

// Notifies the service manager, if one asked for it (NOTIFY_SOCKET): sd_notify(3).
void NotifyManager(const std::string& state) { sd_notify(0, state.c_str()); }

// Notifies the service manager when every model is loaded or has failed.
void NotifyManagerWhenReady(Server& server) {
  NotifyManager("STATUS=loading models");
  std::thread([&server] {
    if (server.WaitUntilReady(kLoadingTime)) {
      NotifyManager(absl::StrCat("READY=1\nSTATUS=serving on ",
                                 absl::StrJoin(server.listening_addresses(), ", ")));
    }
  }).detach();  // the process never ends before its server: see Serve
}

// Logs the processor in use, and a warning when memory is not placed as --numa says.
void LogMachine() {
  const Abilities& abilities = CurrentAbilities();
  const NumaUse& numa = CurrentNumaUse();
  Log({.level = LogLevel::kInfo,
       .text = "the server uses this processor",
       .fields = {{"instruction_set", std::string(Name(abilities.isa))},
                  {"vector_bits", absl::StrCat(abilities.vector_bits)},
                  {"bf16_products", std::string(Name(abilities.bf16))},
                  {"int8_products", std::string(Name(abilities.int8))},
                  {"numa_nodes", absl::StrCat(numa.nodes)},
                  {"weight_copies", absl::StrCat(numa.weight_copies)}}});
  if (numa.memory_error != 0) {
    Log(LogLevel::kWarning,
        absl::StrCat("the system does not let the server choose the NUMA nodes of its memory "
                     "(mbind: ",
                     std::generic_category().message(numa.memory_error),
                     "); allow it (CAP_SYS_NICE in a container), or start one server on each "
                     "node"));
  }
}

// Prints a line; as JSON if the log is JSON, since both are often collected together.
void PrintAddress(LogFormat format, const char* listener, const std::string& address) {
  if (address.empty()) {
    return;
  }
  const std::string text = absl::StrCat("attend-server ", listener, " on ", address);
  const LogEvent event = {.text = text, .fields = {{"address", address}}};
  const std::string line =
      format == LogFormat::kJson ? FormatLogLine(format, absl::Now(), event) : text + "\n";
  std::fputs(line.c_str(), stdout);
}

void PrintAddresses(const Server& server, LogFormat format) {
  if (!TakesOutput()) {
    Log(LogLevel::kWarning, "the addresses are not printed, since standard output is not read");
    return;
  }
  for (const std::string& address : server.listening_addresses()) {
    PrintAddress(format, "listening", address);
  }
  PrintAddress(format, "admin", server.admin_address());
  PrintAddress(format, "health", server.health_address());
  PrintAddress(format, "metrics", server.metrics_address());
  std::fflush(stdout);
}

}  // namespace

int Serve(const ServerOptions& options) {
  const sigset_t signals = BlockSignals();  // before any thread is started
  signal(SIGPIPE, SIG_IGN);                 // the reader of the log may leave before the server
  signal(SIGXFSZ, SIG_IGN);                 // its file may reach a limit of size
  StartAsyncLog();
  static absl::Notification stop;  // the thread of the signals may outlive this function
  WatchSignals(signals, stop);
  const std::string warning = CheckExposure(options).ok() ? PlaintextWarning(options) : "";
  if (!warning.empty()) {
    Log(LogLevel::kWarning, warning);
  }
  WarnOfMemory(options);
  TakeOverLibraryLogs();
  AllowManyFiles();
  if (options.numa != NumaMode::kOff) {
    UseNuma({.nodes = ReadNumaNodes("/", AllowedCpus()),
             .copies_weights = options.numa == NumaMode::kCopies});
  }
  const absl::Status threads = CheckThreads(options.threads);
  absl::StatusOr<std::unique_ptr<Server>> server =
      threads.ok() ? Server::Start(options) : absl::StatusOr<std::unique_ptr<Server>>(threads);
  if (!server.ok()) {
    Log(LogLevel::kError, std::string(server.status().message()));
    FlushLog();
    return EXIT_FAILURE;
  }
  LogMachine();
  PrintAddresses(**server, options.log_format);
  NotifyManagerWhenReady(**server);
  stop.WaitForNotification();
  const absl::Duration draining = options.drain_delay + options.grace_period;
  NotifyManager(absl::StrCat(
      "STOPPING=1\nEXTEND_TIMEOUT_USEC=", absl::ToInt64Microseconds(draining + kEndingTime),
      "\nSTATUS=draining"));
  Log(LogLevel::kInfo,
      absl::StrCat("the server drains for at most ", absl::FormatDuration(draining)));
  (*server)->Drain(options.grace_period);
  Log(LogLevel::kInfo, "the server has drained");
  FlushLog();
  _exit(EXIT_SUCCESS);  // see Server::Shutdown: late callers find a closed connection, UNAVAILABLE
}

}  // namespace attention
