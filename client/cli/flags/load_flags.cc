#include "client/cli/flags/load_flags.h"

#include "client/cli/flags/help_group.h"
#include "client/cli/flags/level_range.h"
#include "client/cli/flags/server_flags.h"
#include "client/load/slo.h"

namespace attention {
namespace {

void AddLevelFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "How much load");
  CLI::Option* const concurrency = group.Value(
      "-c,--concurrency", flags.concurrency, "N",
      "Closed loop: requests in flight at any time (default 1); START:END[:STEP] measures each "
      "level in turn, in steps of 1 if there is no STEP");
  concurrency->check(Accepts(ParseConcurrency));
  CLI::Option* const rate = group.Value(
      "-r,--rate", flags.rate, "R",
      "Open loop: requests a second, sent when they are due; START:END[:STEP] measures each level "
      "in turn, in steps of START if there is no STEP");
  rate->check(Accepts(ParseRates))->excludes(concurrency);
  CLI::Option* const ramp =
      group.Value("--ramp", flags.ramp, "FROM:TO",
                  "Open loop: a rate that rises or falls evenly over the duration");
  ramp->check(Accepts(ParseRamp))->excludes(concurrency)->excludes(rate);
  group
      .Value("--schedule", flags.schedule, "FILE",
             "Open loop: replay recorded requests, a line for each: milliseconds since the start "
             "and, if on all lines, a length in tokens")
      ->excludes(concurrency)
      ->excludes(rate)
      ->excludes(ramp);
  group
      .Choice("--arrivals", flags.arrivals, "constant|poisson",
              "Open loop: evenly spaced (default), or at random as from many users")
      ->excludes(concurrency);
  group
      .Value("--max-in-flight", flags.max_in_flight, "N",
             "Open loop: maximum in flight (default 10000); requests beyond it are not sent and "
             "count as errors")
      ->check(Within(1, 1000000))
      ->excludes(concurrency);
  group.Default("--connections", flags.connections, "N", "TCP connections to spread requests over")
      ->check(Within(1, 1000));
}

void AddTimeFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "For how long");
  AddDuration(group, "-z,--duration", flags.duration,
              "How long to measure: 10s unless a number of requests or a schedule sets the end; "
              "with them, whichever comes first")
      ->check(IsPositiveDuration);
  group.Value("-n,--requests", flags.requests, "N", "How many requests to measure")
      ->check(Within(1.0, 1e12));
  AddDuration(group, "--warmup", flags.warmup,
              "Load before the measurement; default 1s, or 0 with --requests or --schedule");
  group.Value("--warmup-requests", flags.warmup_requests, "N", "Warm-up by number of requests")
      ->check(Within(1.0, 1e12));
}

void AddStabilityFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "Trials until the load is stable");
  group
      .Value("-s,--stability-percentage", flags.stability_percentage, "%",
             "Repeat trials of the duration until the last 3 differ by at most this much in "
             "throughput and latency (default 10 with --max-trials or --require-stable)")
      ->check(Within(0.01, 1000.0));
  group.Value("--max-trials", flags.max_trials, "N", "At most this many trials (default 10)")
      ->check(Within(3, 1000));
  group.Switch("--require-stable", flags.require_stable,
               "Fail when the load does not become stable");
  group
      .Value("--percentile", flags.percentile, "P",
             "Compare this percentile of latency instead of the mean")
      ->check(Within(1.0, 100.0));
}

void AddTargetFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "Targets");
  group
      .List("--slo", flags.slo, "TARGET",
            "A target, such as p99=50ms (p50 to p99.99, mean, max) or errors=0.1%; may be "
            "repeated. A range ends with the first level that misses one")
      ->check(Accepts(ParseSlo));
  group.Switch("--search", flags.search,
               "Find the highest rate that meets the targets: within the range of --rate (or of "
               "-c, requests in flight) to its step; or double it (from 10) until it misses, then "
               "halve the distance down to 5%");
}

}  // namespace

void AddLoadFlags(CLI::App& command, LoadFlags& flags) {
  AddLevelFlags(command, flags);
  AddTimeFlags(command, flags);
  AddStabilityFlags(command, flags);
  AddTargetFlags(command, flags);
}

}  // namespace attention
