#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/flags/bench_flags.h"
#include "client/cli/show/bench_output.h"
#include "client/cli/show/bench_watch.h"
#include "client/cli/show/command_text.h"
#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kBenchExamples[] =
    R"(A closed loop (the default) keeps --concurrency requests in flight: each answer starts the next
request. It finds the throughput, but slows down with the server, so that its latencies are not
those of users who arrive regardless.
An open loop (--rate, --ramp, --schedule) sends requests when they are due and counts latencies
from then, so that no delay is hidden.
The first Ctrl-C (or SIGTERM) ends the measurement: the result is reported, and the exit code is 1.
A second one, at least half a second later, ends the program. Before anything is measured, the first
one does.
A percentile or maximum of --slo that falls on a call that was not answered is missed.

Examples:
  attend bench                                          # demo, [1, 128, d_model], one at a time
  attend bench --shape 1x16x512 -c 8 -z 10s             # or -n 10000
  attend bench --shape 1x16x512 -c 1:16:5 --csv levels.csv
  attend bench --rate 500 --arrivals poisson --lengths uniform:8..512 --timeout 1s
  attend bench --rate 100:2000 --slo p99=50ms --search  # the highest rate that meets the target
  attend bench --ramp 100:1000 -z 60s                   # or --schedule FILE
  attend bench --random-tokens 4x64 --causal --stream -c 4
  attend bench --query random:1x512x8x64 --key random:1x512x8x64 --value random:1x512x8x64
  attend bench --decode -c 64 --prefill 256 --steps 128 # sessions that grow token by token
  attend bench --protocol oip --model NAME --shape 1x128x768 --verify-sample 0
  attend bench --rate 500 -z 30s --html report.html     # charts, as one file
  attend bench -c 4 -z 30s --json a.json                # for attend report

Exit codes: 0 every request was answered, every checked answer agreed, every target was met (of a
range or a search: by one level), and nothing was cut short; 1 otherwise, such as requests that
failed without a target of errors; 2 wrong usage; 3 a target was missed, and nothing else was wrong;
4 nothing was measured: the server could not be reached, or refused the first request, or a file
could not be used.)";

absl::StatusOr<BenchReport> Measure(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const BenchPlan plan, PlanOf(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  const BenchWatch watch = WatchFromTerminal();
  if (flags.decode) {
    ASSIGN_OR_RETURN(const DecodePlan session, MakeDecodePlan(flags, plan, *client));
    ASSIGN_OR_RETURN(const std::unique_ptr<BenchRunner> runner,
                     MakeDecodeRunner(*client, session, plan.options));
    return RunBench(*runner, plan, watch);
  }
  ASSIGN_OR_RETURN(const RequestMix mix, MakeRequestMix(flags, plan, *client));
  const std::unique_ptr<const Protocol> protocol = ProtocolOf(flags);
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRunner> runner,
                   MakeRequestRunner(*client, mix, *protocol, plan.options));
  return RunBench(*runner, plan, watch);
}

absl::StatusOr<BenchReport> MeasureInto(const BenchOutputs& outputs, const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckOutputs(outputs));
  ASSIGN_OR_RETURN(BenchReport report, Measure(flags));
  report.command = CommandLine();
  report.tags = flags.tags;
  return report;
}

int VerdictExitCode(BenchVerdict verdict) {
  return verdict == BenchVerdict::kPassed   ? 0
         : verdict == BenchVerdict::kMissed ? kExitMissed
                                            : kExitFailed;
}

/// Measures, writes the report, and returns the exit code.
int Bench(const BenchFlags& flags) {
  const BenchOutputs outputs{
      .json = flags.json, .csv = flags.csv, .html = flags.html, .records = flags.records};
  const absl::StatusOr<BenchReport> report = MeasureInto(outputs, flags);
  if (!report.ok()) {
    ExitCodeOf(report.status());  // prints it
    return kExitNotMeasured;
  }
  const int written = ExitCodeOf(WriteReport(*report, outputs));
  return written == 0 ? VerdictExitCode(VerdictOf(*report)) : written;
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure throughput and latency under load");
  AddBenchFlags(*command, *flags);
  command->footer(absl::StrCat(kShapeLegend, kBenchExamples));
  command->callback([flags, &exit_code] {
    RequireUsage(CheckBenchFlags(*flags));
    exit_code = Bench(*flags);
  });
}

}  // namespace attention
