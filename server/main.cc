// attend-server: parse flags, serve until a signal, drain.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/onednn/isa.h"
#include "server/observability/line_limit.h"
#include "server/observability/log.h"
#include "server/server.h"
#include "server/server_options.h"

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

// Blocks the signals in this thread and in those it starts later, so that only sigwait sees them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
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

// A line as the log's are where those are JSON: both often end in one place.
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

// What it quotes may be as long as a client likes.
constexpr size_t kMaxGrpcText = 300;

// What gRPC has to say goes the way of everything else, what is no error at the level debug.
// Whoever connects can make it say something.
void LogForGrpc(gpr_log_func_args* event) {
  const bool is_error = event->severity == GPR_LOG_SEVERITY_ERROR;
  const LogLevel level = is_error ? LogLevel::kError : LogLevel::kDebug;
  if (level < CurrentLogLevel()) {
    return;
  }
  // gRPC talks to the end of the process.
  static LineLimit& errors = *new LineLimit("gRPC's errors");
  static LineLimit& others = *new LineLimit("what gRPC does");
  if ((is_error ? errors : others).Take()) {
    Log({.level = level,
         .text = absl::StrCat("grpc: ", std::string(event->message).substr(0, kMaxGrpcText)),
         .fields = {{"file", event->file}, {"line", int64_t{event->line}}}});
  }
}

// To a manager that started it and asked to be told (NOTIFY_SOCKET): sd_notify(3). Nobody, mostly.
void TellManager(const std::string& state) { sd_notify(0, state.c_str()); }

// More than any loading takes; until then the manager's own patience decides.
constexpr absl::Duration kLoadingTime = absl::Hours(24);

// What is loaded serves at once; a unit has started when all is, or has failed.
void TellManagerWhenReady(Server& server) {
  TellManager("STATUS=loading models");
  std::thread([&server] {
    if (server.WaitUntilReady(kLoadingTime)) {
      TellManager(absl::StrCat("READY=1\nSTATUS=serving on ",
                               absl::StrJoin(server.listening_addresses(), ", ")));
    }
  }).detach();  // the process never ends before its server: see Serve
}

int Serve(const ServerOptions& options) {
  const sigset_t signals = BlockSignals();  // before any thread is started
  StartAsyncLog();
  gpr_set_log_function(LogForGrpc);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  // The caller hears of bytes that are no message; it must not be able to fill the log with them.
  google::protobuf::SetLogHandler(nullptr);
  AllowManyFiles();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!server.ok()) {
    Log(LogLevel::kError, std::string(server.status().message()));
    FlushLog();
    return EXIT_FAILURE;
  }
  const Abilities& abilities = CurrentAbilities();
  Log({.level = LogLevel::kInfo,
       .text = "processor",
       .fields = {{"instruction_set", std::string(Name(abilities.isa))},
                  {"bf16_products", std::string(Name(abilities.bf16))},
                  {"int8_products", std::string(Name(abilities.int8))}}});
  for (const std::string& address : (*server)->listening_addresses()) {
    PrintAddress(options.log_format, "listening", address);
  }
  PrintAddress(options.log_format, "admin", (*server)->admin_address());
  PrintAddress(options.log_format, "health", (*server)->health_address());
  PrintAddress(options.log_format, "metrics", (*server)->metrics_address());
  std::fflush(stdout);
  TellManagerWhenReady(**server);
  AwaitSignal(signals);
  TellManager("STOPPING=1\nSTATUS=draining");
  Log(LogLevel::kInfo,
      absl::StrCat("draining for at most ", absl::FormatDuration(options.grace_period)));
  std::thread([signals] {
    AwaitSignal(signals);
    Log(LogLevel::kWarning, "second signal: exit without draining");
    FlushLog();
    _exit(EXIT_FAILURE);
  }).detach();
  (*server)->Drain(options.grace_period);
  Log(LogLevel::kInfo, "drained");
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
