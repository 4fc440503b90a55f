#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/cpu_budget.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/gate.h"
#include "server/services/attention_service.h"
#include "server/services/completion_threads.h"
#include "server/services/health_service.h"
#include "server/services/open_inference/open_inference_service.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// For what is still on its way out when everything has been answered; then connections are closed.
constexpr auto kFlushTime = std::chrono::milliseconds(200);

// The library then never shuts down: its shutdown now and then waits 10 s for a poller of its own,
// which would be 10 s between the last answer and the end of the process.
void KeepGrpcLoaded() {
  static const bool is_loaded = (grpc_init(), true);
  static_cast<void>(is_loaded);
}

v1::ModelLimits LimitsOf(const ServerOptions& options) {
  v1::ModelLimits limits;
  limits.set_max_message_bytes(options.max_message_bytes);
  limits.set_max_queue_bytes(options.max_queue_bytes);
  limits.set_max_tokens(kMaxTokens);
  return limits;
}

std::vector<SeededModelSpec> SeededModelsOf(const ServerOptions& options) {
  std::vector<SeededModelSpec> specs = {DemoModelSpec()};
  specs.insert(specs.end(), options.random_models.begin(), options.random_models.end());
  return specs;
}

ExecutorOptions ExecutorOptionsOf(const ServerOptions& options) {
  return {.num_threads = options.threads > 0 ? options.threads : CpuBudget(),
          .batch = {.max_tokens = options.max_batch_tokens,
                    .max_delay = std::chrono::microseconds(options.max_batch_delay_us)},
          .queue = {.max_bytes = options.max_queue_bytes,
                    .max_requests = options.max_queue_requests,
                    .max_wait_ns = absl::ToInt64Nanoseconds(options.max_queue_wait)}};
}

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  const bool is_unix = absl::StartsWith(address, "unix:") && address.size() > 5;
  const bool is_host_port = colon != std::string::npos && colon > 0 &&
                            absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
                            port <= 65535;
  if (!is_unix && !is_host_port) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen: expected HOST:PORT with a port of 0 to 65535, or unix:/PATH, found ", address));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const char* flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": expected a file with PEM text, found none at ", path));
  }
  return text;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(
    const ServerOptions& options) {
  if (options.tls_certificate.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions tls;
  ASSIGN_OR_RETURN(std::string key, ReadFile("--tls-key", options.tls_key));
  ASSIGN_OR_RETURN(std::string chain, ReadFile("--tls-certificate", options.tls_certificate));
  tls.pem_key_cert_pairs.push_back({std::move(key), std::move(chain)});
  return grpc::SslServerCredentials(tls);
}

std::string WithPort(const std::string& address, int port) {
  return absl::StartsWith(address, "unix:")
             ? address
             : absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// Null without a folder.
std::unique_ptr<ModelLoader> MakeLoader(const ServerOptions& options, ModelRepository& models,
                                        HealthRegistry& health) {
  if (options.models.folder.path.empty()) {
    return nullptr;
  }
  ModelLoaderOptions loader = options.models;
  loader.folder.reserved_names = {kBareAttention};
  for (const SeededModelSpec& spec : SeededModelsOf(options)) {
    loader.folder.reserved_names.insert(spec.name);
  }
  return std::make_unique<ModelLoader>(loader, models, health);
}

}  // namespace

// In the order in which they need each other: destruction goes the other way.
struct Server::State {
  explicit State(const ServerOptions& given)
      : options(given),
        executor(ExecutorOptionsOf(given)),
        loader(MakeLoader(given, models, health)),
        observer(given.logged_requests),
        sessions({given.max_sessions, given.max_cache_bytes}),
        attention_service(
            {models, executor, loader.get(), observer, sessions, admission, live_calls},
            LimitsOf(given)),
        open_inference_service(
            {models, executor, loader.get(), observer, health, admission, live_calls},
            {given.max_message_bytes, given.allow_shared_memory}),
        health_service(health, live_calls) {}

  /// Whatever can go wrong before anybody can see it.
  absl::Status Prepare();
  absl::Status AddSeededModels();
  void SetReady(bool is_ready);
  absl::Status Listen();
  void Configure(grpc::ServerBuilder& builder) const;

  const ServerOptions options;
  ModelRepository models;
  HealthRegistry health;
  Gate admission;
  Gate live_calls;
  /// Somebody is inside until every model found at start is loaded or has failed.
  Gate loading;
  Executor executor;
  /// Null without a folder of models.
  const std::unique_ptr<ModelLoader> loader;
  RequestObserver observer;
  SessionTable sessions;
  AttentionService attention_service;
  OpenInferenceService open_inference_service;
  HealthService health_service;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::unique_ptr<CompletionThreads> completion_threads;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::string> addresses;
};

absl::Status Server::State::Prepare() {
  for (const std::string& address : options.listen) {
    RETURN_IF_ERROR(CheckAddress(address));
  }
  ASSIGN_OR_RETURN(credentials, CredentialsOf(options));
  RETURN_IF_ERROR(AddSeededModels());
  SetReady(loader == nullptr);
  if (loader != nullptr) {
    if (const absl::Status status = loader->Discover(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("--models: ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status Server::State::AddSeededModels() {
  for (const SeededModelSpec& spec : SeededModelsOf(options)) {
    if (absl::Status status = models.AddSeeded(spec); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("--random-model ", spec.name, ": ",
                                                      std::string(status.message())));
    }
    health.Set(absl::StrCat("model/", spec.name), true);
  }
  return absl::OkStatus();
}

void Server::State::SetReady(bool is_ready) {
  health.Set(v1::AttentionService::service_full_name(), is_ready);
  health.Set("", is_ready);
}

void Server::State::Configure(grpc::ServerBuilder& builder) const {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // replies are refused before they are computed
  // Otherwise two servers share a port, and each gets half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients behind a balancer that forgets idle connections ping them; without this they are told
  // "too_many_pings".
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Otherwise each stream begins with a window of 64 KiB, and a tensor comes in as many turns as it
  // has of them.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  // A client that vanished must not hold its answer's memory.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

absl::Status Server::State::Listen() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(builder);
  std::vector<int> ports(options.listen.size(), 0);
  for (size_t i = 0; i < options.listen.size(); ++i) {
    builder.AddListeningPort(options.listen[i], credentials, &ports[i]);
  }
  builder.RegisterService(&attention_service.grpc_service());
  builder.RegisterService(&open_inference_service.grpc_service());
  builder.RegisterService(&health_service.grpc_service());
  completion_threads = std::make_unique<CompletionThreads>(builder.AddCompletionQueue());
  server = builder.BuildAndStart();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] == 0) {
      return absl::UnavailableError(absl::StrCat("--listen: cannot listen on ", options.listen[i],
                                                 ": the address is in use or not this machine's"));
    }
    addresses.push_back(WithPort(options.listen[i], ports[i]));
  }
  if (server == nullptr) {
    return absl::InternalError("the gRPC server did not start");
  }
  attention_service.Start(completion_threads->queue());
  open_inference_service.Start(completion_threads->queue());
  health_service.Start(completion_threads->queue());
  completion_threads->Start(std::clamp(CpuBudget(), 1, 4));
  return absl::OkStatus();
}

absl::Status Server::Check(const ServerOptions& options) {
  KeepGrpcLoaded();
  State state(options);
  return state.Prepare();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  KeepGrpcLoaded();
  auto state = std::make_unique<State>(options);
  RETURN_IF_ERROR(state->Prepare());
  RETURN_IF_ERROR(state->Listen());
  if (state->loader != nullptr) {
    // Beside serving: what is there can be asked for meanwhile, and health tells when all is.
    state->loading.TryEnter();
    state->loader->Start([&state = *state] {
      state.SetReady(true);
      state.loading.Leave();
    });
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  if (state_->server != nullptr) {
    Shutdown(absl::ZeroDuration());
  }
}

const std::vector<std::string>& Server::listening_addresses() const { return state_->addresses; }

bool Server::WaitUntilReady(absl::Duration patience) {
  return state_->loading.WaitUntilEmpty(steady_clock::now() + absl::ToChronoNanoseconds(patience));
}

void Server::Drain(absl::Duration grace) {
  State& state = *state_;
  state.health.Drain();
  state.admission.Close();
  if (state.loader != nullptr) {
    state.loader->Close();
  }
  state.admission.WaitUntilEmpty(steady_clock::now() + absl::ToChronoNanoseconds(grace));
  state.executor.Stop();
  state.health.Close();
  for (const std::string& address : state.addresses) {
    if (absl::StartsWith(address, "unix:")) {
      std::error_code ignored;  // it may be gone already
      std::filesystem::remove(address.substr(std::strlen("unix:")), ignored);
    }
  }
}

void Server::Shutdown(absl::Duration grace) {
  Drain(grace);
  State& state = *state_;
  state.server->Shutdown(std::chrono::system_clock::now() + kFlushTime);
  state.live_calls.WaitUntilEmpty(TimePoint::max());
  state.completion_threads.reset();
  state.server.reset();
}

}  // namespace attention
