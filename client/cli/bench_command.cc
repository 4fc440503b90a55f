#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_flags.h"
#include "client/cli/commands.h"
#include "client/load/bench.h"
#include "client/load/decode_bench.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kExamples[] =
    "A closed loop (the default): --concurrency requests are always under way, and each answer "
    "starts the next. The load\n"
    "slows down with the server: it finds the throughput, but latencies are not what users see who "
    "arrive regardless.\n"
    "An open loop (--rate): requests are sent when they are due, and latencies count from then, so "
    "that no delay is hidden.\n"
    "\n"
    "Examples:\n"
    "  attend bench                                            demo, [1, 128, d_model], one at a "
    "time\n"
    "  attend bench --shape 1x16x512 -c 8 -z 10s\n"
    "  attend bench --rate 500 --arrivals poisson --lengths uniform:8..512 --timeout 1s\n"
    "  attend bench --tokens-shape 4x64 --causal --stream -c 4\n"
    "  attend bench --query random:1x512x8x64 --key random:1x512x8x64 --value random:1x512x8x64 "
    "--dtype bf16\n"
    "  attend bench --decode -c 64 --prefill 256 --steps 128  sessions that grow token by token\n"
    "  attend bench --protocol oip --model NAME --shape 1x128x768 --verify-sample 0    any server "
    "of "
    "that protocol\n"
    "  attend bench -c 4 --json result.json\n"
    "\n"
    "Exit codes: 0 every request was answered and every checked answer agreed, 1 not so, 2 wrong "
    "usage.";

absl::Status WriteJson(const std::string& path, const nlohmann::json& json) {
  if (path == "-") {
    std::cout << json.dump(2) << "\n";
    return absl::OkStatus();
  }
  std::ofstream file(path);
  file << json.dump(2) << "\n";
  file.close();
  return file ? absl::OkStatus()
              : absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
}

/// Whether all went well.
template <typename Report>
absl::StatusOr<bool> Show(const Report& report, const std::string& json) {
  if (json != "-") {
    std::cout << ToText(report);
  }
  if (!json.empty()) {
    RETURN_IF_ERROR(WriteJson(json, ToJson(report)));
  }
  return Succeeded(report);
}

absl::StatusOr<bool> Bench(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  const LoadOptions options = LoadOptionsOf(flags);
  std::cerr << "attend: measuring for " << absl::FormatDuration(options.duration) << " after "
            << absl::FormatDuration(options.warmup) << " of warm-up\n";
  if (flags.decode) {
    ASSIGN_OR_RETURN(const DecodePlan plan, MakeDecodePlan(flags, *client));
    ASSIGN_OR_RETURN(const DecodeReport report, RunDecodeBench(*client, plan, options));
    return Show(report, flags.json);
  }
  ASSIGN_OR_RETURN(const RequestMix mix, MakeRequestMix(flags, *client));
  const std::unique_ptr<const Protocol> protocol = ProtocolOf(flags);
  ASSIGN_OR_RETURN(const LoadReport report, RunBench(*client, mix, *protocol, options));
  return Show(report, flags.json);
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure throughput and latency under load");
  AddBenchFlags(*command, *flags);
  command->footer(kExamples);
  command->callback([flags, &exit_code] {
    RequireUsage(CheckBenchFlags(*flags));
    const absl::StatusOr<bool> succeeded = Bench(*flags);
    exit_code = !succeeded.ok() ? Fail(succeeded.status()) : *succeeded ? 0 : kExitFailed;
  });
}

}  // namespace attention
