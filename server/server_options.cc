#include "server/server_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kVersion[] = ATTEND_VERSION;

constexpr char kDescription[] =
    R"(attend-server: multi-head attention as a service (gRPC, attention.v1.AttentionService).

Serves the built-in model "demo", attention over your own query, key and value, health
(grpc.health.v1) and reflection. Prints one line "attend-server listening on ADDRESS" per address
on standard output when it is ready; logs to standard error. SIGTERM or SIGINT: refuse new
requests, finish those under way, exit 0; a second one: exit at once.)";

constexpr char kExamples[] = R"(Examples:
  attend-server
  attend-server --listen=0.0.0.0:8001 --listen=unix:/run/attend.sock --threads=8
  attend-server --listen 127.0.0.1:0 --random-model big:d_model=768,num_heads=12,dtype=bf16)";

// "30", "30s", "1m30s".
absl::StatusOr<absl::Duration> ParseGracePeriod(const std::string& text) {
  double seconds = 0;
  absl::Duration duration;
  const bool ok = absl::SimpleAtod(text, &seconds) ? (duration = absl::Seconds(seconds), true)
                                                   : absl::ParseDuration(text, &duration);
  if (!ok || duration < absl::ZeroDuration() || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--grace-period: expected 0 to 24 hours, as 30 (seconds), 30s or 1m30s, found ", text));
  }
  return duration;
}

struct RawOptions {
  std::vector<std::string> random_models;
  std::string grace_period = "30s";
};

void AddFlags(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  const CLI::Range at_least_one(int64_t{1}, std::numeric_limits<int64_t>::max());
  // One value per occurrence, so that a stray word is an error and not another value.
  const auto repeatable = [](CLI::Option* option) { option->expected(1)->take_all(); };
  repeatable(
      app.add_option(
             "--listen", options.listen,
             "Address to serve on: HOST:PORT (port 0: any free one) or unix:/PATH; repeatable")
          ->capture_default_str());
  repeatable(app.add_option(
      "--random-model", raw.random_models,
      "Serve one more attention layer with seeded random weights; repeatable:\n"
      "NAME:d_model=768,num_heads=12[,num_kv_heads=4][,head_dim=64][,value_head_dim=64]\n"
      "[,vocab_size=1000,max_positions=2048][,dtype=fp32|bf16][,causal=true][,seed=1]"));
  app.add_option("--threads", options.threads,
                 "Threads that compute; 0: the cores this process may use (cgroup, affinity)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  // gRPC and protobuf count the bytes of a message in an int.
  app.add_option("--max-message-bytes", options.max_message_bytes,
                 "Largest request, and largest reply of Attend")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int>::max()}))
      ->capture_default_str();
  app.add_option("--max-queue-bytes", options.max_queue_bytes,
                 "Bytes of requests that may wait; also the largest reply of AttendStream")
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option("--max-queue-requests", options.max_queue_requests, "Requests that may wait")
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option(
         "--max-batch-tokens", options.max_batch_tokens,
         "Rows of requests that are computed together; a single larger request is computed alone")
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option(
         "--grace-period", raw.grace_period,
         "How long requests under way may take to finish after SIGTERM: seconds, or 30s, 1m30s")
      ->capture_default_str();
}

absl::Status Complete(const RawOptions& raw, ServerOptions& options) {
  for (const std::string& text : raw.random_models) {
    absl::StatusOr<SeededModelSpec> spec = ParseSeededModelSpec(text);
    if (!spec.ok()) {
      return absl::Status(spec.status().code(),
                          absl::StrCat("--random-model: ", std::string(spec.status().message())));
    }
    options.random_models.push_back(*std::move(spec));
  }
  ASSIGN_OR_RETURN(options.grace_period, ParseGracePeriod(raw.grace_period));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  ParsedCommandLine parsed;
  RawOptions raw;
  CLI::App app(kDescription, "attend-server");
  app.footer(kExamples);
  app.set_version_flag("--version", absl::StrCat("attend-server ", kVersion));
  AddFlags(app, parsed.options, raw);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = absl::StrCat(version.what(), "\n");
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see attend-server --help"));
  }
  RETURN_IF_ERROR(Complete(raw, parsed.options));
  return parsed;
}

}  // namespace attention
