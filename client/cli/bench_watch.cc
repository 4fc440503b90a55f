#include "client/cli/bench_watch.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <iostream>

#include "absl/strings/str_format.h"
#include "client/load/load_result.h"

namespace attention {
namespace {

/// Begins a line of a terminal anew.
constexpr char kClearLine[] = "\r\x1b[K";

std::atomic<bool>& IsInterrupted() {
  static std::atomic<bool> is_interrupted = false;
  return is_interrupted;
}

void Interrupt(int) {
  IsInterrupted().store(true);
  static constexpr char kMessage[] =
      "\nattend: stopping; waiting for requests in flight (Ctrl-C again to stop now)\n";
  // Nothing can be done when it fails.
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

void CatchFirstInterrupt() {
  struct sigaction action{};
  action.sa_handler = Interrupt;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

std::string LevelText(const LoadOptions& options) {
  return options.open_loop.has_value() ? absl::StrFormat("%.6g requests/s", LevelValue(options))
                                       : absl::StrFormat("%d in flight", options.concurrency);
}

void TellLevel(const LoadOptions& options) {
  const std::string warmup = options.warmup_requests > 0
                                 ? absl::StrFormat("%d requests", options.warmup_requests)
                                 : absl::FormatDuration(options.warmup);
  const std::string length = options.duration == absl::InfiniteDuration() && options.requests > 0
                                 ? absl::StrFormat("%d requests", options.requests)
                             : options.duration == absl::InfiniteDuration() ? "the schedule"
                             : options.stability.has_value()
                                 ? absl::StrFormat("up to %d x %s", options.stability->max_trials,
                                                   absl::FormatDuration(options.duration))
                                 : absl::FormatDuration(options.duration);
  std::cerr << "attend: " << LevelText(options) << ": measuring for " << length << " after "
            << warmup << " of warm-up\n";
}

void TellProgress(const LoadProgress& progress) {
  const bool is_warming_up = progress.elapsed < absl::ZeroDuration();
  std::cerr << kClearLine
            << absl::StrFormat(
                   "%s  %.1f answers/s  p99 %.3f ms  %d failed  %d in flight",
                   is_warming_up
                       ? "warm-up"
                       : absl::StrFormat("%.1f s", absl::ToDoubleSeconds(progress.elapsed)),
                   progress.answers_per_s, progress.p99_ms, progress.errors, progress.in_flight)
            << std::flush;
}

}  // namespace

BenchWatch WatchFromTerminal() {
  CatchFirstInterrupt();
  BenchWatch watch;
  watch.control.stop = &IsInterrupted();
  watch.on_level = TellLevel;
  if (isatty(STDERR_FILENO) == 1) {
    watch.control.on_progress = TellProgress;
    watch.on_result = [](const BenchLevel&) { std::cerr << kClearLine << std::flush; };
  }
  return watch;
}

}  // namespace attention
