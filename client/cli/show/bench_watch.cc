#include "client/cli/show/bench_watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "client/cli/files/terminal_size.h"
#include "core/runtime/counted.h"

namespace attention {
namespace {

/// The time within which interrupts are one.
constexpr int64_t kOneInterruptNs = 500'000'000;

/// Clears the current line of a terminal.
constexpr char kClearLine[] = "\r\x1b[K";

std::atomic<bool>& IsInterrupted() {
  static std::atomic<bool> is_interrupted = false;
  return is_interrupted;
}

void Interrupt(int number) {
  static std::atomic<int64_t> first_ns = 0;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const InterruptEffect effect = TakeInterrupt(first_ns, std::chrono::nanoseconds(now).count());
  if (effect == InterruptEffect::kEndProgram) {
    signal(number, SIG_DFL);
    raise(number);  // takes effect when this handler returns
  }
  if (effect != InterruptEffect::kEndMeasurement) {
    return;
  }
  IsInterrupted().store(true);
  static constexpr char kMessage[] =
      "\nattend: stopping; waiting for requests in flight (Ctrl-C again to stop now)\n";
  // A failure cannot be handled here.
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

/// SIGTERM is what `timeout`, containers and CI send.
void CatchInterrupts() {
  struct sigaction action{};
  action.sa_handler = Interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void PrintLevel(const LoadOptions& options) {
  const std::string length = options.duration == absl::InfiniteDuration() && options.requests > 0
                                 ? Counted(options.requests, "request")
                             : options.duration == absl::InfiniteDuration() ? "the schedule"
                             : options.stability.has_value()
                                 ? absl::StrFormat("up to %d x %s", options.stability->max_trials,
                                                   absl::FormatDuration(options.duration))
                                 : absl::FormatDuration(options.duration);
  std::cerr << "attend: " << (HasUnusedLanes(options) ? "at most " : "") << LevelText(options)
            << (options.open_loop.has_value() ? " requests/s" : " in flight") << ": measuring for "
            << length << " after " << absl::FormatDuration(options.warmup) << " of warm-up\n";
}

void PrintProgress(const LoadProgress& progress) {
  const TerminalSize size = SizeOfTerminal(STDERR_FILENO).value_or(TerminalSize());
  std::cerr << kClearLine << ProgressLine(progress, size.columns) << std::flush;
}

}  // namespace

InterruptEffect TakeInterrupt(std::atomic<int64_t>& first_ns, int64_t now_ns) {
  int64_t first = 0;
  if (first_ns.compare_exchange_strong(first, now_ns)) {
    return InterruptEffect::kEndMeasurement;
  }
  return now_ns - first < kOneInterruptNs ? InterruptEffect::kNothing
                                          : InterruptEffect::kEndProgram;
}

std::string ProgressLine(const LoadProgress& progress, int64_t columns) {
  const bool is_warming_up = progress.elapsed < absl::ZeroDuration();
  const std::string line = absl::StrFormat(
      "%s  %.1f answers/s  p99 %.3f ms  %d failed  %d in flight",
      is_warming_up ? "warm-up"
                    : absl::StrFormat("%.1f s", absl::ToDoubleSeconds(progress.elapsed)),
      progress.answers_per_s, progress.p99_ms, progress.errors, progress.in_flight);
  return line.substr(0, static_cast<size_t>(std::max<int64_t>(0, columns - 1)));
}

BenchWatch WatchFromTerminal() {
  BenchWatch watch;
  watch.control.stop = &IsInterrupted();
  watch.on_level = [](const LoadOptions& options) {
    CatchInterrupts();  // until then nothing is measured that could be reported
    PrintLevel(options);
  };
  if (isatty(STDERR_FILENO) == 1) {
    watch.control.on_progress = PrintProgress;
    watch.on_result = [](const BenchLevel&) { std::cerr << kClearLine << std::flush; };
  }
  return watch;
}

}  // namespace attention
