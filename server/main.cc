// attend-server: parse flags, serve until a signal, drain.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/cpu_budget.h"
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

// Starts the thread that notifies `stop` at the first signal, and ends the process at the second.
// It is started before the server, since no thread may be left when the server is to end.
void WatchSignals(const sigset_t& signals, absl::Notification& stop) {
  std::thread([signals, &stop] {
    AwaitSignal(signals);
    stop.Notify();
    sigset_t urgent = signals;
    sigdelset(&urgent, SIGHUP);  // a terminal that closes may send it beside another
    AwaitSignal(urgent);
    Log(LogLevel::kWarning, "the server exits without draining, at a second signal");
    FlushLog();
    _exit(EXIT_FAILURE);
  }).detach();
}

// Returns an error if the process cannot have so many threads at once. A server whose start fails
// halfway for lack of one could wait for ever for those that it has.
absl::Status CheckThreads(int wanted) {
  absl::Notification over;
  std::vector<std::thread> threads;
  absl::Status status;
  try {
    while (std::ssize(threads) < wanted) {
      threads.emplace_back([&over] { over.WaitForNotification(); });
    }
  } catch (const std::exception& error) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "expected that ", wanted, " threads can be started, found ", threads.size(), " (",
        error.what(), "): see ulimit -u and -v, and the pids limit of the cgroup"));
  }
  over.Notify();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return status;
}

// Opens /dev/null in place of closed standard files, since another file would get their numbers,
// and what is written to them.
void OpenStandardFiles() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) < 0) {
      open("/dev/null", O_RDWR);  // the lowest number that is free
    }
  }
}

// Each connection is a file; the usual limit of 1024 is for programs that select() them.
void AllowManyFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Returns whether standard output takes a few lines; a pipe that nobody reads does not.
bool TakesOutput() {
  constexpr int kPatienceMs = 1000;
  pollfd wait = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&wait, 1, kPatienceMs) == 1;
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

// The threads of a server beside those that compute; an idle one has 23.
constexpr int kOtherThreads = 32;

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
  TakeOverLibraryLogs();
  AllowManyFiles();
  if (options.numa != NumaMode::kOff) {
    UseNuma({.nodes = ReadNumaNodes("/", AllowedCpus()),
             .copies_weights = options.numa == NumaMode::kCopies});
  }
  const absl::Status threads =
      CheckThreads((options.threads > 0 ? options.threads : CpuBudget()) + kOtherThreads);
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
  NotifyManager("STOPPING=1\nSTATUS=draining");
  Log(LogLevel::kInfo,
      absl::StrCat("the server drains for at most ",
                   absl::FormatDuration(options.drain_delay + options.grace_period)));
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

int main(int argc, char** argv) try {
  attention::OpenStandardFiles();
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
} catch (const std::exception& error) {
  // No memory, or no thread: the limits of the process are too small.
  std::fprintf(stderr, "attend-server: the server cannot start: %s\n", error.what());
  attention::FlushLog();
  _exit(EXIT_FAILURE);
}
