// attend-server: parse flags, serve until a signal, drain.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/numa.h"
#include "server/command_line.h"
#include "server/library_log.h"
#include "server/log/log.h"
#include "server/security/exposure.h"
#include "server/server.h"

namespace attention {
namespace {

Environment OwnEnvironment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t name_end = text.find('=');
    variables[text.substr(0, name_end)] = text.substr(std::min(name_end + 1, text.size()));
  }
  return variables;
}

// Blocks the signals in this thread and in threads that it starts later, so that only sigwait gets
// them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // when a terminal closes; no file needs it to be read again
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void AwaitSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
}

// Each connection is a file; the usual limit of 1024 is for programs that select() them.
void AllowManyFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
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

// Notifies the service manager, if one asked for it (NOTIFY_SOCKET): sd_notify(3).
void NotifyManager(const std::string& state) { sd_notify(0, state.c_str()); }

// Longer than any model takes to load. The service manager has a limit of its own.
constexpr absl::Duration kLoadingTime = absl::Hours(24);

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

int Serve(const ServerOptions& options) {
  const sigset_t signals = BlockSignals();  // before any thread is started
  signal(SIGPIPE, SIG_IGN);                 // the reader of the log may leave before the server
  StartAsyncLog();
  const std::string warning = CheckExposure(options).ok() ? PlaintextWarning(options) : "";
  if (!warning.empty()) {
    Log(LogLevel::kWarning, warning);
  }
  TakeOverLibraryLogs();
  AllowManyFiles();
  if (options.numa != NumaMode::kOff) {
    UseNuma({.nodes = ReadNumaNodes("/", AllowedCpus()),
             .copies_weights = options.numa == NumaMode::kCopies});
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!server.ok()) {
    Log(LogLevel::kError, std::string(server.status().message()));
    FlushLog();
    return EXIT_FAILURE;
  }
  LogMachine();
  for (const std::string& address : (*server)->listening_addresses()) {
    PrintAddress(options.log_format, "listening", address);
  }
  PrintAddress(options.log_format, "admin", (*server)->admin_address());
  PrintAddress(options.log_format, "health", (*server)->health_address());
  PrintAddress(options.log_format, "metrics", (*server)->metrics_address());
  std::fflush(stdout);
  NotifyManagerWhenReady(**server);
  AwaitSignal(signals);
  NotifyManager("STOPPING=1\nSTATUS=draining");
  Log(LogLevel::kInfo,
      absl::StrCat("the server drains for at most ",
                   absl::FormatDuration(options.drain_delay + options.grace_period)));
  sigset_t urgent = signals;
  sigdelset(&urgent, SIGHUP);  // a terminal that closes may send it beside another
  std::thread([urgent] {
    AwaitSignal(urgent);
    Log(LogLevel::kWarning, "the server exits without draining, at a second signal");
    FlushLog();
    _exit(EXIT_FAILURE);
  }).detach();
  (*server)->Drain(options.grace_period);
  Log(LogLevel::kInfo, "the server has drained");
  FlushLog();
  _exit(EXIT_SUCCESS);  // see Server::Shutdown: late callers find a closed connection, UNAVAILABLE
}

int Check(const ServerOptions& options) {
  const absl::Status status = Server::Check(options);
  const std::string text = status.ok() ? "a server would start" : std::string(status.message());
  std::fprintf(status.ok() ? stdout : stderr, "attend-server: %s\n", text.c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
  // Debian's Abseil looks for lock cycles at every lock, under one lock of the process (2 to 4 % of
  // the time of small requests), and aborts when it finds one, also in gRPC. The tests keep that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const absl::StatusOr<attention::ParsedCommandLine> parsed = attention::ParseCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), attention::OwnEnvironment());
  if (!parsed.ok()) {
    std::fprintf(stderr, "attend-server: %s\n", std::string(parsed.status().message()).c_str());
    return EXIT_FAILURE;
  }
  attention::SetLogFormat(parsed->options.log_format);
  attention::SetLogLevel(parsed->options.log_level);
  for (const std::string& warning : parsed->warnings) {
    attention::Log(attention::LogLevel::kWarning, warning);
  }
  if (!parsed->text.empty()) {
    std::fputs(parsed->text.c_str(), stdout);
    return EXIT_SUCCESS;
  }
  return parsed->is_check ? attention::Check(parsed->options) : attention::Serve(parsed->options);
}
