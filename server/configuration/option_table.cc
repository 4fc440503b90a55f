#include "server/configuration/option_table.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/models/version_policy.h"

namespace attention {
namespace {

constexpr char kNone[] = "none";
constexpr IntegerRange kAtLeastOne = {1, std::numeric_limits<int64_t>::max()};
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

// A text, or "none".
template <typename Field>
Option AddressOption(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .placeholder = "ADDRESS",
          .help = help,
          .apply =
              [field](const std::vector<std::string>& values, ServerOptions& options) {
                std::invoke(field, options) = values[0] == kNone ? "" : values[0];
                return absl::OkStatus();
              },
          .default_values = {kNone}};
}

OptionSection Listening() {
  return {"Listening",
          {ListOption("listen", &ServerOptions::listen, "ADDRESS",
                      "Address to serve on: HOST:PORT (port 0: any free one) or unix:/PATH; "
                      "repeatable"),
           AddressOption("admin-listen", &ServerOptions::admin_listen,
                         "Address that serves administrators too, who load models and the like; "
                         "none: turned off")
               .WithDefault("127.0.0.1:8003"),
           AddressOption("health-listen", &ServerOptions::health_listen,
                         "Address that serves grpc.health.v1 in plaintext, and nothing else: for "
                         "probes"),
           SwitchOption("insecure", &ServerOptions::insecure,
                        "Allow plaintext (without --tls-certificate) on addresses that other "
                        "machines can reach")}};
}

OptionSection Security() {
  return {
      "Security",
      {TextOption("tls-certificate", &ServerOptions::tls_certificate, "FILE",
                  "Speak TLS on every address but --health-listen, with this certificate chain "
                  "(PEM);\nread again when it changes, for connections that come then")
           .Needs("tls-key"),
       TextOption("tls-key", &ServerOptions::tls_key, "FILE", "The certificate's private key (PEM)")
           .Needs("tls-certificate"),
       TextOption("tls-client-ca", &ServerOptions::tls_client_ca, "FILE",
                  "Expect clients to show a certificate signed by one of these (PEM)")
           .Needs("tls-certificate"),
       TextOption("tokens", &ServerOptions::tokens, "FILE",
                  "Expect callers to show a token of this file, which says whose it is and "
                  "what it allows;\nread again when it changes (--make-token makes one)"),
       SwitchOption("allow-shared-memory", &ServerOptions::allow_shared_memory,
                    "Let clients of the Open Inference Protocol pass tensors in system shared "
                    "memory: they can\nthen name any of this machine's objects that the "
                    "server may open")}};
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
      {{.name = "random-model",
        .is_repeatable = true,
        .placeholder = "SPEC",
        .help = "Serve one more attention layer with seeded random weights; repeatable:\n"
                "NAME:d_model=768,num_heads=12[,num_kv_heads=4][,head_dim=64][,value_head_dim=64]\n"
                "[,vocab_size=1000,max_positions=2048][,dtype=fp32|bf16][,causal=true][,seed=1]",
        .apply = ApplyRandomModels},
       TextOption("models", folder, "DIR",
                  "Serve the models of this folder, DIR/NAME or DIR/NAME/VERSION, each with "
                  "config.json and\nmodel.safetensors (or model.safetensors.index.json and its "
                  "shards)"),
       DurationOption(
           "models-poll", poll,
           "Look this often whether models came, changed or went; 0: only when asked to\n"
           "(attend models --reload)")
           .Needs("models"),
       ChoiceOption("weights-dtype", dtype, dtypes,
                    "How the weights of --models are kept; attend models --verify tells what it "
                    "costs")
           .Needs("models"),
       Option{.name = "model-versions",
              .is_repeatable = true,
              .placeholder = "POLICY",
              .help = "Versions of --models to serve: latest (the highest that can be loaded; the "
                      "default) or all,\nand for one model NAME=latest, NAME=all or NAME=1,3; "
                      "repeatable",
              .apply = ApplyModelVersions}
           .Needs("models")}};
}

OptionSection Scheduling() {
  return {
      "Scheduling",
      {IntegerOption("threads", &ServerOptions::threads, {0, 4096},
                     "Threads that compute; 0: the cores this process may use (cgroup, affinity)"),
       IntegerOption("max-batch-tokens", &ServerOptions::max_batch_tokens, kAtLeastOne,
                     "Rows of requests that are computed together; a single larger request is "
                     "computed alone"),
       IntegerOption("max-batch-delay-us", &ServerOptions::max_batch_delay_us, {0, 1'000'000},
                     "Microseconds that a request waits for others when the threads are free"),
       DurationOption("grace-period", &ServerOptions::grace_period,
                      "How long requests under way may take to finish after SIGTERM: seconds, or "
                      "30s, 1m30s")}};
}

OptionSection Limits() {
  return {
      "Limits",
      {IntegerOption("max-message-bytes", &ServerOptions::max_message_bytes, kMessageBytes,
                     "Largest request, and largest reply of Attend"),
       IntegerOption("max-queue-bytes", &ServerOptions::max_queue_bytes, kAtLeastOne,
                     "Bytes of requests that may wait; also the largest reply of AttendStream"),
       IntegerOption("max-queue-requests", &ServerOptions::max_queue_requests, kAtLeastOne,
                     "Requests that may wait"),
       DurationOption("max-queue-wait", &ServerOptions::max_queue_wait,
                      "Estimated time that what waits may take: what comes then is refused, and "
                      "told when\nto try again"),
       IntegerOption(
           "max-reply-bytes", &ServerOptions::max_reply_bytes, kAtLeastOne,
           "Memory of replies, from when their requests are accepted until they are sent; "
           "one that is\nlarger is computed when there is no other"),
       DurationOption("reply-patience", &ServerOptions::reply_patience,
                      "How long a caller may leave a reply untaken while others need its room"),
       IntegerOption("max-cache-bytes", &ServerOptions::max_cache_bytes, kAtLeastOne,
                     "Memory of the keys and values of all sessions (Decode)"),
       IntegerOption("max-sessions", &ServerOptions::max_sessions, kAtLeastOne,
                     "Sessions that may be open"),
       DurationOption("session-idle-timeout", &ServerOptions::session_idle_timeout,
                      "End the stream of a session that had no action for so long; 0: never")}};
}

OptionSection Connections() {
  using Limits = ConnectionLimits;
  const auto of = [](auto member) {
    return [member](ServerOptions& options) -> auto& { return options.connections.*member; };
  };
  return {
      "Connections",
      {IntegerOption("max-connections", of(&Limits::max_connections), kAtLeastOne,
                     "Connections that may be open, of --listen, --admin-listen and "
                     "--health-listen each; others are closed at once"),
       IntegerOption("max-concurrent-streams", of(&Limits::max_streams), {1, 1'000'000},
                     "Calls that may be under way on one connection; more wait in the client"),
       IntegerOption("max-header-bytes", of(&Limits::max_header_bytes), {1024, 1 << 20},
                     "Largest headers of a call"),
       DurationOption("max-connection-age", of(&Limits::max_age),
                      "Age from which a connection takes no new calls, so that its client finds "
                      "other servers; 0: none"),
       DurationOption("max-connection-age-grace", of(&Limits::max_age_grace),
                      "How long calls under way may take to finish then; 0: as long as they "
                      "like"),
       DurationOption("max-connection-idle", of(&Limits::max_idle),
                      "Time without a call after which a connection is closed; 0: none")}};
}

absl::Status ApplySampleRatio(const std::vector<std::string>& values, ServerOptions& options) {
  double& ratio = options.trace_sample_ratio;
  return absl::SimpleAtod(values[0], &ratio) && ratio >= 0 && ratio <= 1
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("expected a share of 0 to 1, found ", values[0]));
}

std::vector<Option> TraceOptions() {
  return {TextOption("otlp-endpoint", &ServerOptions::otlp_endpoint, "URL",
                     "Send traces of requests (W3C Trace Context) to this collector, by OTLP/HTTP: "
                     "http://HOST:4318"),
          TextOption("otlp-headers", &ServerOptions::otlp_headers, "FILE",
                     "Send these headers with traces, a line of NAME: VALUE each, for a collector "
                     "that wants to know\nwhose they are; read again for each batch")
              .Needs("otlp-endpoint"),
          Option{.name = "trace-sample-ratio",
                 .type = Option::Type::kNumber,
                 .placeholder = "SHARE",
                 .help = "Of requests that come without a trace, the share that begins one, 0 to 1",
                 .range = {0, 1},
                 .apply = ApplySampleRatio,
                 .default_values = {"1"}}
              .Needs("otlp-endpoint")};
}

std::vector<Option> LogOptions() {
  return {ChoiceOption<LogFormat ServerOptions::*, LogFormat>(
              "log-format", &ServerOptions::log_format,
              {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
              "Of the log, one line an event on standard error"),
          ChoiceOption<LogLevel ServerOptions::*, LogLevel>(
              "log-level", &ServerOptions::log_level,
              {{"debug", LogLevel::kDebug},
               {"info", LogLevel::kInfo},
               {"warning", LogLevel::kWarning},
               {"error", LogLevel::kError}},
              "What is less than this is not logged; attend log-level changes it later"),
          ChoiceOption<LoggedRequests ServerOptions::*, LoggedRequests>(
              "log-requests", &ServerOptions::logged_requests,
              {{"none", LoggedRequests::kNone},
               {"failed", LoggedRequests::kFailed},
               {"all", LoggedRequests::kAll}},
              "Which requests have a line in the log; of failed ones at most 20 a second")};
}

OptionSection Observability() {
  std::vector<Option> options = {
      AddressOption("metrics-listen", &ServerOptions::metrics_listen,
                    "Serve /metrics for Prometheus, by HTTP, on HOST:PORT (port 0: any free one); "
                    "none: turned off")
          .WithDefault("127.0.0.1:8002"),
      SwitchOption("metrics-insecure", &ServerOptions::metrics_insecure,
                   "Allow --metrics-listen, which is plaintext, on an address that other machines "
                   "can reach; --insecure does, too")};
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
