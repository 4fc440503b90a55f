#include "server/server_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/models/version_policy.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kVersion[] = ATTEND_VERSION;

constexpr char kDescription[] =
    R"(attend-server: multi-head attention as a service (gRPC, attention.v1.AttentionService).

Serves the models of a folder (--models), the built-in model "demo", attention over your own
query, key and value, the same by the Open Inference Protocol v2 (inference.GRPCInferenceService),
health (grpc.health.v1) and reflection. Prints one line "attend-server listening on ADDRESS" per
address on standard output when it listens; models are loaded beside that, and health is SERVING
when all are. Logs to standard error. SIGTERM or SIGINT: refuse new requests, finish those under
way, exit 0; a second one: exit at once.)";

constexpr char kExamples[] = R"(Examples:
  attend-server
  attend-server --listen=0.0.0.0:8001 --listen=unix:/run/attend.sock --threads=8
  attend-server --models=/srv/models --models-poll=10s --weights-dtype=bf16
  attend-server --listen 127.0.0.1:0 --random-model big:d_model=768,num_heads=12,dtype=bf16)";

// "30", "30s", "1m30s".
absl::StatusOr<absl::Duration> ParseDuration(const std::string& flag, const std::string& text) {
  double seconds = 0;
  absl::Duration duration;
  const bool ok = absl::SimpleAtod(text, &seconds) ? (duration = absl::Seconds(seconds), true)
                                                   : absl::ParseDuration(text, &duration);
  if (!ok || duration < absl::ZeroDuration() || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": expected 0 to 24 hours, as 30 (seconds), 30s or 1m30s, found ", text));
  }
  return duration;
}

absl::StatusOr<WeightsDtype> ParseWeightsDtype(const std::string& text) {
  for (const WeightsDtype dtype : {WeightsDtype::kF32, WeightsDtype::kBf16, WeightsDtype::kInt8}) {
    if (Name(dtype) == text) {
      return dtype;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--weights-dtype: expected fp32, bf16 or int8, found ", text));
}

struct RawOptions {
  std::vector<std::string> random_models;
  std::string grace_period = "30s";
  std::string max_queue_wait = "5s";
  std::string models_poll = "0";
  std::string weights_dtype = "fp32";
  std::vector<std::string> model_versions;
};

// One value per occurrence, so that a stray word is an error and not another value.
void MakeRepeatable(CLI::Option* option) { option->expected(1)->take_all(); }

void AddModelFlags(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  MakeRepeatable(app.add_option(
      "--random-model", raw.random_models,
      "Serve one more attention layer with seeded random weights; repeatable:\n"
      "NAME:d_model=768,num_heads=12[,num_kv_heads=4][,head_dim=64][,value_head_dim=64]\n"
      "[,vocab_size=1000,max_positions=2048][,dtype=fp32|bf16][,causal=true][,seed=1]"));
  CLI::Option* const models = app.add_option(
      "--models", options.models.folder.path,
      "Serve the models of this folder, DIR/NAME or DIR/NAME/VERSION, each with config.json and\n"
      "model.safetensors (or model.safetensors.index.json and its shards)");
  models->type_name("DIR")->check(
      [](const std::string& text) { return text.empty() ? "expected a folder" : ""; });
  app.add_option("--models-poll", raw.models_poll,
                 "Look this often whether models came, changed or went; 0: only when asked to\n"
                 "(attend models --reload)")
      ->needs(models)
      ->capture_default_str();
  app.add_option("--weights-dtype", raw.weights_dtype,
                 "How the weights of --models are kept; attend models --verify tells what it costs")
      ->needs(models)
      ->type_name("fp32|bf16|int8")
      ->capture_default_str();
  MakeRepeatable(app.add_option("--model-versions", raw.model_versions,
                                "Versions of --models to serve: latest (the highest that can be "
                                "loaded; the default) or all,\n"
                                "and for one model NAME=latest, NAME=all or NAME=1,3; repeatable")
                     ->needs(models));
}

void AddFlags(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  const CLI::Range at_least_one(int64_t{1}, std::numeric_limits<int64_t>::max());
  MakeRepeatable(
      app.add_option(
             "--listen", options.listen,
             "Address to serve on: HOST:PORT (port 0: any free one) or unix:/PATH; repeatable")
          ->capture_default_str());
  CLI::Option* const certificate =
      app.add_option("--tls-certificate", options.tls_certificate,
                     "Speak TLS on every address, with this certificate chain (PEM)")
          ->type_name("FILE");
  app.add_option("--tls-key", options.tls_key, "The certificate's private key (PEM)")
      ->type_name("FILE")
      ->needs(certificate);
  certificate->needs("--tls-key");
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
         "--max-queue-wait", raw.max_queue_wait,
         "Estimated time that what waits may take: what comes then is refused, and told when\n"
         "to try again")
      ->capture_default_str();
  app.add_option("--max-batch-delay-us", options.max_batch_delay_us,
                 "Microseconds that a request waits for others when the threads are free")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--max-cache-bytes", options.max_cache_bytes,
                 "Memory of the keys and values of all sessions (Decode)")
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option("--max-sessions", options.max_sessions, "Sessions that may be open")
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option("--log-requests", options.logged_requests,
                 "Which requests have a line in the log; of failed ones at most 20 a second")
      ->transform(CLI::Transformer(
                      std::map<std::string, LoggedRequests>{{"none", LoggedRequests::kNone},
                                                            {"failed", LoggedRequests::kFailed},
                                                            {"all", LoggedRequests::kAll}})
                      .description(""))
      ->type_name("none|failed|all")
      ->default_str("failed");
  app.add_flag("--allow-shared-memory", options.allow_shared_memory,
               "Let clients of the Open Inference Protocol pass tensors in system shared memory: "
               "they can\nthen name any of this machine's objects that the server may open");
  app.add_option(
         "--grace-period", raw.grace_period,
         "How long requests under way may take to finish after SIGTERM: seconds, or 30s, 1m30s")
      ->capture_default_str();
}

absl::Status CompleteModels(const RawOptions& raw, ModelLoaderOptions& models) {
  ASSIGN_OR_RETURN(models.poll_interval, ParseDuration("--models-poll", raw.models_poll));
  ASSIGN_OR_RETURN(models.weights_dtype, ParseWeightsDtype(raw.weights_dtype));
  for (const std::string& text : raw.model_versions) {
    if (const absl::Status status = AddVersionPolicy(text, models.folder.versions); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--model-versions: ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
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
  ASSIGN_OR_RETURN(options.max_queue_wait, ParseDuration("--max-queue-wait", raw.max_queue_wait));
  ASSIGN_OR_RETURN(options.grace_period, ParseDuration("--grace-period", raw.grace_period));
  return CompleteModels(raw, options.models);
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  ParsedCommandLine parsed;
  RawOptions raw;
  CLI::App app(kDescription, "attend-server");
  app.footer(kExamples);
  app.set_version_flag("--version", absl::StrCat("attend-server ", kVersion));
  AddModelFlags(app, parsed.options, raw);
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
