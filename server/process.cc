#include "server/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/cpu_budget.h"
#include "server/log/log.h"

namespace attention {
namespace {

// The threads of a server beside those that compute; an idle one has 23.
constexpr int kOtherThreads = 32;

}  // namespace

Environment OwnEnvironment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t name_end = text.find('=');
    variables[text.substr(0, name_end)] = text.substr(std::min(name_end + 1, text.size()));
  }
  return variables;
}

void OpenStandardFiles() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) < 0) {
      open("/dev/null", O_RDWR);  // the lowest number that is free
    }
  }
}

void AllowManyFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // sent when a terminal closes, and not used to read files again
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void WatchSignals(const sigset_t& signals, absl::Notification& stop) {
  std::thread([signals, &stop] {
    // A terminal that closes, and a service manager, may send SIGHUP before or after another.
    for (int counted = 0; counted < 2;) {
      int signal = 0;
      sigwait(&signals, &signal);
      counted += signal == SIGHUP ? 0 : 1;
      if (!stop.HasBeenNotified()) {
        stop.Notify();
      }
    }
    Log(LogLevel::kWarning, "the server exits without draining, at a second signal");
    FlushLog();
    _exit(EXIT_FAILURE);
  }).detach();
}

absl::Status CheckThreads(int compute_threads) {
  const int wanted = (compute_threads > 0 ? compute_threads : CpuBudget()) + kOtherThreads;
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

bool TakesOutput() {
  constexpr int kPatienceMs = 1000;
  pollfd wait = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&wait, 1, kPatienceMs) == 1;
}

}  // namespace attention
