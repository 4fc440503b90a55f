#include "server/configuration/option_table.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/models/seeded_model.h"
#include "core/runtime/status_macros.h"
#include "server/models/version_policy.h"

namespace attention {
namespace {

constexpr char kNone[] = "none";
constexpr IntegerRange kAtLeastOne = {1, std::numeric_limits<int64_t>::max()};
constexpr IntegerRange kAtLeastZero = {0, std::numeric_limits<int64_t>::max()};
// gRPC and protobuf count the bytes of a message in an int.
constexpr IntegerRange kMessageBytes = {1, std::numeric_limits<int>::max()};

absl::Status ApplyRandomModels(const std::vector<std::string>& values, ServerOptions& options) {
  options.random_models.clear();
  for (const std::string& text : values) {
    ASSIGN_OR_RETURN(SeededModelSpec spec, ParseSeededModelSpec(text));
    options.random_models.push_back(std::move(spec));
  }
  return absl::OkStatus();
}

absl::Status ApplyModelVersions(const std::vector<std::string>& values, ServerOptions& options) {
  options.models.folder.versions = {};
  for (const std::string& text : values) {
    RETURN_IF_ERROR(AddVersionPolicy(text, options.models.folder.versions));
  }
  return absl::OkStatus();
}

absl::Status ApplyRequiredModels(const std::vector<std::string>& values, ServerOptions& options) {
  std::set<std::string> names(values.begin(), values.end());
  if (names.erase(kNone) > 0 && !names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected names or ", kNone, " alone, found both"));
  }
  options.models.folder.required_names = std::move(names);
  return absl::OkStatus();
}

// Makes an option whose value is an address or "none".
template <typename Field>
Option AddressOption(const std::string& name, Field field, const std::string& help) {
  Option option = TextOption(name, field, "ADDRESS", help);
  option.default_values = {kNone};
  option.apply = [store = option.apply, field](const std::vector<std::string>& values,
                                               ServerOptions& options) {
    RETURN_IF_ERROR(store(values, options));
    if (values[0] == kNone) {
      std::invoke(field, options).clear();
    }
    return absl::OkStatus();
  };
  return option;
}

OptionSection Listening() {
  return {
      "Listening",
      {ListOption(
           "listen", &ServerOptions::listen, "ADDRESS",
           "Serve on this address: HOST:PORT (port 0: any free port) or unix:/PATH; repeatable"),
       AddressOption("admin-listen", &ServerOptions::admin_listen,
                     "Serve on this address too, with the admin RPCs, which load models and change "
                     "what is logged; none: disabled")
           .WithDefault("127.0.0.1:8003"),
       AddressOption(
           "health-listen", &ServerOptions::health_listen,
           "Serve only grpc.health.v1 on this address, in plaintext, for probes; none: disabled"),
       SwitchOption(
           "insecure", &ServerOptions::insecure,
           "Allow plaintext (without --tls-certificate, and for /metrics), and "
           "--admin-listen without --tokens, on addresses that other machines can reach")}};
}

OptionSection Security() {
  return {"Security",
          {TextOption(
               "tls-certificate", &ServerOptions::tls_certificate, "FILE",
               "Use TLS with this certificate chain (PEM) on every address except --health-listen "
               "and --metrics-listen, which are plaintext. The server reads the file again when it "
               "changes, for new connections")
               .Needs("tls-key"),
           TextOption("tls-key", &ServerOptions::tls_key, "FILE",
                      "Private key of the certificate (PEM)")
               .Needs("tls-certificate"),
           TextOption("tls-client-ca", &ServerOptions::tls_client_ca, "FILE",
                      "Require clients to present a certificate that an authority in this file has "
                      "signed (PEM)")
               .Needs("tls-certificate"),
           TextOption("tokens", &ServerOptions::tokens, "FILE",
                      "Require callers to present a token of this file, which gives the tenant and "
                      "the rights of each token. The server reads the file again when it changes. "
                      "--make-token makes a token"),
           SwitchOption(
               "allow-shared-memory", &ServerOptions::allow_shared_memory,
               "Let clients of the Open Inference Protocol pass tensors in system shared memory. "
               "They can then name any shared memory of this machine that the server may open")}};
}

Option RandomModelOption() {
  return {.name = "random-model",
          .is_repeatable = true,
          .placeholder = "SPEC",
          .help =
              "Serve one more attention layer with seeded random weights; repeatable:\n"
              "NAME:d_model=768,num_heads=12[,num_kv_heads=4][,head_dim=64]\n"
              "[,value_head_dim=64][,vocab_size=1000,max_positions=2048]\n"
              "[,dtype=fp32|bf16][,causal=true][,seed=1]",
          .apply = ApplyRandomModels};
}

Option RequiredModelsOption() {
  return {.name = "required-models",
          .is_repeatable = true,
          .placeholder = "NAME",
          .help =
              "Models of --models that must have served before the health of model/* is "
              "SERVING; other models may fail. none: no model; default: all that the folder "
              "has at the start; repeatable",
          .apply = ApplyRequiredModels};
}

Option ModelVersionsOption() {
  return {.name = "model-versions",
          .is_repeatable = true,
          .placeholder = "POLICY",
          .help =
              "Versions of --models to serve: latest (the default: the highest that can be "
              "loaded) or all; for one model NAME=latest, NAME=all or NAME=1,3; repeatable",
          .apply = ApplyModelVersions};
}

OptionSection Models() {
  const auto folder = [](ServerOptions& options) -> auto& { return options.models.folder.path; };
  const auto poll = [](ServerOptions& options) -> auto& { return options.models.poll_interval; };
  const auto dtype = [](ServerOptions& options) -> auto& { return options.models.weights_dtype; };
  std::vector<std::pair<std::string, WeightsDtype>> dtypes;
  for (const WeightsDtype value : {WeightsDtype::kF32, WeightsDtype::kBf16, WeightsDtype::kInt8}) {
    dtypes.emplace_back(Name(value), value);
  }
  return {
      "Models",
      {RandomModelOption(),
       TextOption(
           "models", folder, "DIR",
           "Serve the models of this folder: DIR/NAME or DIR/NAME/VERSION, each with config.json "
           "and model.safetensors (or model.safetensors.index.json and its shards)"),
       RequiredModelsOption().Needs("models"),
       DurationOption("models-poll", poll,
                      "Check at this interval whether models were added, changed or removed; 0: "
                      "only on request (attend models --reload)")
           .Needs("models"),
       ChoiceOption("weights-dtype", dtype, dtypes,
                    "Element type in which the server keeps the weights of --models; attend models "
                    "--verify measures what it costs in accuracy")
           .Needs("models"),
       ModelVersionsOption().Needs("models")}};
}

OptionSection Scheduling() {
  return {
      "Scheduling",
      {IntegerOption("threads", &ServerOptions::threads, {0, 4096},
                     "Number of compute threads; 0: one for each core that this process may use "
                     "(cgroup, affinity)"),
       ChoiceOption<NumaMode ServerOptions::*, NumaMode>(
           "numa", &ServerOptions::numa,
           {{"auto", NumaMode::kAuto}, {"copies", NumaMode::kCopies}, {"off", NumaMode::kOff}},
           "On a machine of several NUMA nodes, auto pins compute threads to nodes and takes the "
           "memory of weights and sessions from all nodes in turn; copies gives each node a copy "
           "of the weights; off leaves both to the system"),
       IntegerOption(
           "max-batch-tokens", &ServerOptions::max_batch_tokens, kAtLeastOne,
           "Maximum rows of one batch; a larger request is computed alone. A batch is also full "
           "with 2e9 operations for each thread, unless it has at most 64 rows of a model"),
       IntegerOption("max-batch-delay-us", &ServerOptions::max_batch_delay_us, {0, 1'000'000},
                     "Microseconds that a request waits for others while the threads are idle"),
       DurationOption("stall-timeout", &ServerOptions::stall_timeout,
                      "Report NOT_SERVING when requests wait and no part of any was computed for "
                      "this time, so that a probe restarts the server; 0: never"),
       DurationOption("drain-delay", &ServerOptions::drain_delay,
                      "How long open connections are served after SIGTERM, while new ones are "
                      "refused and health is NOT_SERVING. It ends when no connection is open, so "
                      "set it above 1.1 times --max-connection-age, which gRPC varies by a tenth"),
       DurationOption("grace-period", &ServerOptions::grace_period,
                      "How long running requests may take to finish after SIGTERM and "
                      "--drain-delay")}};
}

OptionSection Limits() {
  return {
      "Limits",
      {SizeOption("max-message-bytes", &ServerOptions::max_message_bytes, kMessageBytes,
                  "Maximum size of a request, and of a reply of Attend"),
       SizeOption("max-queue-bytes", &ServerOptions::max_queue_bytes, kAtLeastOne,
                  "Maximum bytes of waiting requests; also the maximum reply of AttendStream"),
       IntegerOption("max-queue-requests", &ServerOptions::max_queue_requests, kAtLeastOne,
                     "Maximum number of waiting requests"),
       DurationOption("max-queue-wait", &ServerOptions::max_queue_wait,
                      "Maximum estimated time to compute all waiting requests. The server refuses "
                      "further requests and tells their callers when to retry; 0: no request "
                      "waits for another"),
       SizeOption("max-reply-bytes", &ServerOptions::max_reply_bytes, kAtLeastOne,
                  "Maximum memory of replies, from the acceptance of their requests until they "
                  "are sent. A larger reply is accepted only while there is no other"),
       DurationOption(
           "reply-patience", &ServerOptions::reply_patience,
           "How long a caller may leave a reply unread while other replies need its memory"),
       SizeOption("max-cache-bytes", &ServerOptions::max_cache_bytes, kAtLeastOne,
                  "Maximum memory of the keys and values of all sessions (Decode)"),
       SizeOption("prefix-cache-bytes", &ServerOptions::prefix_cache_bytes, kAtLeastZero,
                  "Maximum part of --max-cache-bytes in which the first tokens of sequences are "
                  "kept, for sequences that begin alike; 0: they are not kept"),
       IntegerOption("max-sessions", &ServerOptions::max_sessions, kAtLeastOne,
                     "Maximum number of open sessions"),
       DurationOption(
           "session-idle-timeout", &ServerOptions::session_idle_timeout,
           "End a stream (of a session, or ModelStreamInfer) on which no request came and "
           "no answer was taken for this time; 0: never")}};
}

OptionSection Connections() {
  using Limits = ConnectionLimits;
  const auto of = [](auto member) {
    return [member](ServerOptions& options) -> auto& { return options.connections.*member; };
  };
  return {
      "Connections",
      {IntegerOption("max-connections", of(&Limits::max_connections), {1, 1 << 30},
                     "Maximum open connections of each of --listen, --admin-listen and "
                     "--health-listen. Further connections are closed at once"),
       IntegerOption("max-concurrent-streams", of(&Limits::max_streams), {1, 1'000'000},
                     "Maximum concurrent calls on one connection; more calls wait in the client"),
       SizeOption("max-header-bytes", of(&Limits::max_header_bytes), {1024, 1 << 20},
                  "Maximum size of the headers of a call"),
       DurationOption("max-connection-age", of(&Limits::max_age),
                      "Age at which a connection stops taking new calls, so that its client "
                      "connects to other servers; 0: none"),
       DurationOption("max-connection-age-grace", of(&Limits::max_age_grace),
                      "How long calls may go on after --max-connection-age; 0: no limit"),
       DurationOption("max-connection-idle", of(&Limits::max_idle),
                      "Close a connection after this time without a call; 0: never")}};
}

absl::Status ApplySampleRatio(const std::vector<std::string>& values, ServerOptions& options) {
  double& ratio = options.trace_sample_ratio;
  return absl::SimpleAtod(values[0], &ratio) && ratio >= 0 && ratio <= 1
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("expected a share of 0 to 1, found ", Shown(values[0])));
}

std::vector<Option> TraceOptions() {
  return {
      TextOption("otlp-endpoint", &ServerOptions::otlp_endpoint, "URL",
                 "Send traces of requests (W3C Trace Context) to this collector over OTLP/HTTP: "
                 "http://HOST:4318"),
      TextOption("otlp-headers", &ServerOptions::otlp_headers, "FILE",
                 "Send these headers with traces, one NAME: VALUE per line, to a collector that "
                 "authenticates its clients. The server reads the file again for each batch")
          .Needs("otlp-endpoint"),
      Option{
          .name = "trace-sample-ratio",
          .type = Option::Type::kNumber,
          .placeholder = "SHARE",
          .help = "Share of the requests without a trace for which the server starts one, 0 to 1",
          .range = {0, 1},
          .apply = ApplySampleRatio,
          .default_values = {"1"}}
          .Needs("otlp-endpoint")};
}

std::vector<Option> LogOptions() {
  return {
      ChoiceOption<LogFormat ServerOptions::*, LogFormat>(
          "log-format", &ServerOptions::log_format,
          {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
          "Format of the log, which has one line per event on standard error"),
      ChoiceOption<LogLevel ServerOptions::*, LogLevel>(
          "log-level", &ServerOptions::log_level,
          {{"debug", LogLevel::kDebug},
           {"info", LogLevel::kInfo},
           {"warning", LogLevel::kWarning},
           {"error", LogLevel::kError}},
          "Minimum level of the events in the log; attend log-level changes it while the server "
          "runs"),
      ChoiceOption<LoggedRequests ServerOptions::*, LoggedRequests>(
          "log-requests", &ServerOptions::logged_requests,
          {{"none", LoggedRequests::kNone},
           {"failed", LoggedRequests::kFailed},
           {"all", LoggedRequests::kAll}},
          "Which requests have a line in the log. failed: at most 20 lines a second; all: without "
          "a limit")};
}

OptionSection Observability() {
  std::vector<Option> options = {
      AddressOption(
          "metrics-listen", &ServerOptions::metrics_listen,
          "Serve /metrics for Prometheus over HTTP on HOST:PORT (port 0: any free port) or "
          "unix:/PATH; none: disabled")
          .WithDefault("127.0.0.1:8002"),
      SwitchOption("metrics-insecure", &ServerOptions::metrics_insecure,
                   "Allow --metrics-listen, which is plaintext, on an address that other machines "
                   "can reach; --insecure allows it too")};
  for (std::vector<Option>& more : std::vector<std::vector<Option>>{LogOptions(), TraceOptions()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return {"Observability", std::move(options)};
}

}  // namespace

const std::vector<OptionSection>& OptionSections() {
  static const std::vector<OptionSection> sections = {
      Listening(), Security(), Models(), Scheduling(), Limits(), Connections(), Observability()};
  return sections;
}

}  // namespace attention
