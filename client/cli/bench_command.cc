#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/request_flags.h"
#include "client/cli/server_flags.h"
#include "client/load/bench.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kExamples[] =
    "A closed loop: --concurrency requests are always under way, and each answer starts the next "
    "request. So the load\n"
    "slows down with the server, and latencies do not tell what users who arrive regardless would "
    "see.\n"
    "\n"
    "Examples:\n"
    "  attend bench                                            demo, [1, 128, d_model], one at a "
    "time\n"
    "  attend bench --shape 1x16x512 -c 8 -z 10s\n"
    "  attend bench --tokens-shape 4x64 --causal --stream -c 4\n"
    "  attend bench --query random:1x512x8x64 --key random:1x512x8x64 --value random:1x512x8x64 "
    "--dtype bf16\n"
    "  attend bench -c 4 --json result.json\n"
    "\n"
    "Exit codes: 0 every request was answered and every checked answer agreed, 1 not so, 2 wrong "
    "usage.";

struct BenchFlags {
  ServerFlags server;
  RequestFlags request;
  bool stream = false;
  int concurrency = 1;
  int connections = 1;
  std::string duration = "10s";
  std::string warmup = "1s";
  int verify_sample = 4;
  std::string json;
};

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
absl::StatusOr<bool> Bench(BenchFlags flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  if (!flags.request.has_input()) {
    ASSIGN_OR_RETURN(const v1::Model model,
                     client->GetModel(flags.request.model, flags.request.run.version));
    flags.request.random = absl::StrCat("1x128x", model.d_model());
  }
  ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(flags.request, *client));
  const LoadOptions options{.server = flags.server.server,
                            .concurrency = flags.concurrency,
                            .connections = flags.connections,
                            .warmup = *ParseDuration(flags.warmup),
                            .duration = *ParseDuration(flags.duration),
                            .timeout = *ParseDuration(flags.server.timeout),
                            .num_samples = flags.verify_sample};
  std::cerr << "attend: measuring for " << absl::FormatDuration(options.duration) << " after "
            << absl::FormatDuration(options.warmup) << " of warm-up\n";
  ASSIGN_OR_RETURN(const LoadReport report,
                   RunBench(*client, workload.request, flags.stream, options));
  if (flags.json != "-") {
    std::cout << ToText(report);
  }
  if (!flags.json.empty()) {
    RETURN_IF_ERROR(WriteJson(flags.json, ToJson(report)));
  }
  return Succeeded(report);
}

void AddFlags(CLI::App& command, BenchFlags& flags) {
  AddServerFlags(command, flags.server);
  AddRequestFlags(command, flags.request);
  static constexpr char kGroup[] = "Load";
  command.add_option("-c,--concurrency", flags.concurrency, "Requests under way at any time")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000).description(""))
      ->group(kGroup);
  command.add_option("--connections", flags.connections, "TCP connections they are spread over")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""))
      ->group(kGroup);
  AddDuration(command, "-z,--duration", flags.duration, "How long to measure")
      ->check([](const std::string& text) {
        return *ParseDuration(text) > absl::ZeroDuration() ? "" : "expected more than 0 seconds";
      })
      ->group(kGroup);
  AddDuration(command, "--warmup", flags.warmup, "Load that comes before and is not counted")
      ->group(kGroup);
  command.add_flag("--stream", flags.stream, "Ask for row blocks (AttendStream)")->group(kGroup);
  command
      .add_option("--verify-sample", flags.verify_sample,
                  "Check the first answer in double precision, and that so many others equal it "
                  "bit for bit")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000).description(""))
      ->group(kGroup);
  command
      .add_option("--json", flags.json,
                  "Also write the result as JSON; - for stdout, instead of text")
      ->type_name("FILE")
      ->group(kGroup);
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure throughput and latency under load");
  AddFlags(*command, *flags);
  command->footer(kExamples);
  command->callback([flags, &exit_code] {
    if (flags->request.has_input()) {
      RequireUsage(CheckRequestFlags(flags->request));
    }
    const absl::StatusOr<bool> succeeded = Bench(*flags);
    exit_code = !succeeded.ok() ? Fail(succeeded.status()) : *succeeded ? 0 : kExitFailed;
  });
}

}  // namespace attention
