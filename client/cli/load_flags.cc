#include "client/cli/load_flags.h"

#include "absl/strings/str_cat.h"
#include "client/cli/accepts.h"
#include "client/cli/level_range.h"
#include "client/cli/server_flags.h"
#include "client/load/slo.h"

namespace attention {
namespace {

constexpr char kLoadGroup[] = "How much load";
constexpr char kTimeGroup[] = "For how long";
constexpr char kTargetGroup[] = "Targets";

CLI::Option* AddNumber(CLI::App& command, const std::string& names, int64_t& number,
                       const std::string& help) {
  return command.add_option(names, number, help)
      ->type_name("N")
      ->check(CLI::Range(1.0, 1e12).description(""))
      ->group(kTimeGroup);
}

void AddLevelFlags(CLI::App& command, LoadFlags& flags) {
  CLI::Option* const concurrency =
      command
          .add_option("-c,--concurrency,--concurrency-range", flags.concurrency,
                      "Requests under way at any time (default 1); START:END[:STEP] measures each "
                      "level in turn, by 1 if there is no step")
          ->type_name("N")
          ->check(Accepts(ParseConcurrency))
          ->group(kLoadGroup);
  CLI::Option* const rate =
      command
          .add_option("-r,--rate,--rps,--request-rate-range", flags.rate,
                      "Requests a second, sent when they are due whatever is under way; "
                      "START:END[:STEP] measures each level in turn, by START if there is no step")
          ->type_name("R")
          ->check(Accepts(ParseRates))
          ->excludes(concurrency)
          ->group(kLoadGroup);
  CLI::Option* const ramp = command
                                .add_option("--ramp", flags.ramp,
                                            "A rate that goes evenly from one to the other, "
                                            "falling or rising, over the duration")
                                ->type_name("FROM:TO")
                                ->check(Accepts(ParseRamp))
                                ->excludes(concurrency)
                                ->excludes(rate)
                                ->group(kLoadGroup);
  command
      .add_option("--schedule", flags.schedule,
                  "Send requests as they came once: a file with a line for each, milliseconds "
                  "since the start and, if on all lines, a length in tokens")
      ->type_name("FILE")
      ->excludes(concurrency)
      ->excludes(rate)
      ->excludes(ramp)
      ->group(kLoadGroup);
}

void AddLoopFlags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("--arrivals,--request-distribution", flags.arrivals,
                  "Of a rate: constant (default), or poisson: random, as of many users")
      ->type_name("HOW")
      ->check(CLI::IsMember({"constant", "poisson"}).description(""))
      ->excludes("--concurrency")
      ->group(kLoadGroup);
  command
      .add_option("--max-in-flight", flags.max_in_flight,
                  "Of a rate: what is due while so many are under way is not sent, an error "
                  "(default 10000)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000).description(""))
      ->excludes("--concurrency")
      ->group(kLoadGroup);
  command.add_option("--connections", flags.connections, "TCP connections they are spread over")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""))
      ->group(kLoadGroup);
}

void AddTimeFlags(CLI::App& command, LoadFlags& flags) {
  AddDuration(command, "-z,--duration,-x,--max-duration", flags.duration,
              "How long to measure: 10s unless a number or a schedule says when to end; with them "
              "whichever is first")
      ->check([](const std::string& text) {
        return *ParseDuration(text) > absl::ZeroDuration() ? "" : "expected more than 0 seconds";
      })
      ->group(kTimeGroup);
  AddNumber(command, "-n,--requests,--request-count", flags.requests,
            "How many requests to measure");
  command
      .add_option_function<double>(
          "-p,--measurement-interval",
          [&flags](double ms) { flags.duration = absl::StrCat(ms / 1e3); },
          "The duration, or that of a trial, in milliseconds")
      ->type_name("MS")
      ->check(CLI::Range(1.0, 1e9).description(""))
      ->excludes("--duration")
      ->group(kTimeGroup);
  AddDuration(command, "--warmup", flags.warmup,
              "Load that comes before and is not counted: 1s, or 0 before a number or a schedule")
      ->group(kTimeGroup);
  AddNumber(command, "--warmup-requests,--warmup-request-count", flags.warmup_requests,
            "The same by number");
}

void AddStabilityFlags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("-s,--stability-percentage", flags.stability_percentage,
                  "Measure in trials of the duration until the last 3 differ by no more than so "
                  "much in throughput and latency (default 10 with one of the next two)")
      ->type_name("%")
      ->check(CLI::Range(0.01, 1000.0).description(""))
      ->group(kTimeGroup);
  command.add_option("--max-trials", flags.max_trials, "At most so many trials (default 10)")
      ->type_name("N")
      ->check(CLI::Range(3, 1000).description(""))
      ->group(kTimeGroup);
  command
      .add_flag("--require-stable", flags.require_stable, "A load that does not settle has failed")
      ->group(kTimeGroup);
}

void AddTargetFlags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("--slo", flags.slo,
                  "What the load must keep to, such as p99=50ms (p50 to p99.99, mean, max), or "
                  "errors=0.1%; may be repeated. A range ends with the first level that does not")
      ->type_name("TARGET")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(Accepts(ParseSlo))
      ->group(kTargetGroup);
  command
      .add_option("-l,--latency-threshold", flags.latency_threshold_ms,
                  "The same for the mean, or the --percentile, in milliseconds")
      ->type_name("MS")
      ->check(CLI::Range(1e-3, 1e9).description(""))
      ->group(kTargetGroup);
  command
      .add_option("--percentile", flags.percentile, "What -l and -s look at, instead of the mean")
      ->type_name("P")
      ->check(CLI::Range(1.0, 100.0).description(""))
      ->group(kTargetGroup);
  command
      .add_flag("--search,--binary-search", flags.search,
                "Find the highest rate that keeps to the targets: within the range of --rate (or "
                "of -c, requests under way) to its step, or doubling it from there (from 10), "
                "then halving the distance down to 5%")
      ->group(kTargetGroup);
}

}  // namespace

void AddLoadFlags(CLI::App& command, LoadFlags& flags) {
  AddLevelFlags(command, flags);
  AddLoopFlags(command, flags);
  AddTimeFlags(command, flags);
  AddStabilityFlags(command, flags);
  AddTargetFlags(command, flags);
}

}  // namespace attention
