#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/cpu_budget.h"
#include "core/runtime/status_macros.h"
#include "server/listener.h"
#include "server/observability/telemetry.h"
#include "server/scheduling/executor.h"
#include "server/security/exposure.h"
#include "server/security/guards.h"
#include "server/service_set.h"
#include "server/services/connections.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// For what is still on its way out when everything has been answered; then connections are closed.
constexpr absl::Duration kFlushTime = absl::Milliseconds(200);
// A health check is a name.
constexpr int64_t kMaxHealthMessageBytes = 4096;

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
        health_service(health, live_calls) {}

  /// Whatever can go wrong before anybody can see it.
  absl::Status Prepare();
  absl::Status AddSeededModels();
  void SetReady(bool is_ready);
  std::unique_ptr<ServiceSet> MakeServices(bool is_trusted);
  absl::Status Listen();
  /// The listener of a flag, not yet of its addresses.
  ListenerOptions ListenerOptionsOf(const std::string& flag);
  absl::Status ListenForHealth();
  /// Those there are.
  std::vector<std::unique_ptr<Listener>*> Listeners();
  MetricsSources Sources() const;

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
  /// Null: traces go nowhere.
  std::unique_ptr<SpanExporter> exporter;
  RequestObserver observer;
  SessionTable sessions;
  SharedMemory shared_memory;
  Guards guards;
  /// Null until they listen, and where there is none.
  std::unique_ptr<ServiceSet> admin;
  std::unique_ptr<ServiceSet> everybody;
  HealthService health_service;
  std::unique_ptr<Listener> health_listener;
  /// Null: off. Reads all of the above.
  std::unique_ptr<HttpListener> metrics;
  bool is_shut_down = false;
};

absl::Status Server::State::Prepare() {
  ASSIGN_OR_RETURN(guards, OpenGuards(options));
  ASSIGN_OR_RETURN(exporter, StartTraces({.endpoint = options.otlp_endpoint,
                                          .sample_ratio = options.trace_sample_ratio,
                                          .version = ATTEND_VERSION}));
  observer.set_exporter(exporter.get());
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

ListenerOptions Server::State::ListenerOptionsOf(const std::string& flag) {
  return {.flag = flag,
          .addresses = {},
          .credentials = guards.credentials,
          .max_message_bytes = options.max_message_bytes,
          .limits = options.connections,
          .has_reflection = true,
          .live_calls = live_calls};
}

absl::Status Server::State::ListenForHealth() {
  ListenerOptions health_only = ListenerOptionsOf("--health-listen");
  health_only.addresses = {options.health_listen};
  health_only.credentials = grpc::InsecureServerCredentials();
  health_only.max_message_bytes = kMaxHealthMessageBytes;
  health_only.has_reflection = false;
  ASSIGN_OR_RETURN(health_listener, Listener::Open(health_only, {&health_service.grpc_service()}));
  return absl::OkStatus();
}

std::unique_ptr<ServiceSet> Server::State::MakeServices(bool is_trusted) {
  const ServiceSet::Shared shared = {models,
                                     executor,
                                     loader.get(),
                                     observer,
                                     sessions,
                                     health,
                                     options.allow_shared_memory ? &shared_memory : nullptr,
                                     admission,
                                     live_calls};
  return std::make_unique<ServiceSet>(
      shared, Access::Rules{.tokens = guards.tokens.get(), .is_trusted = is_trusted},
      LimitsOf(options));
}

absl::Status Server::State::Listen() {
  everybody = MakeServices(/*is_trusted=*/false);
  ListenerOptions for_everybody = ListenerOptionsOf("--listen");
  for_everybody.addresses = options.listen;
  for_everybody.has_reflection = guards.tokens == nullptr;
  RETURN_IF_ERROR(everybody->Open(for_everybody));
  if (!options.admin_listen.empty()) {
    admin = MakeServices(TrustsAdminListener(options));
    ListenerOptions for_admins = ListenerOptionsOf("--admin-listen");
    for_admins.addresses = {options.admin_listen};
    RETURN_IF_ERROR(admin->Open(for_admins));
    for (ServiceSet* const set : {everybody.get(), admin.get()}) {
      set->access().set_admin_address(admin->listener()->addresses().front());
    }
  }
  if (!options.health_listen.empty()) {
    RETURN_IF_ERROR(ListenForHealth());
    health_service.Start(health_listener->queue());
    health_listener->StartThreads(1);
  }
  everybody->Start(std::clamp(CpuBudget(), 1, 4));
  if (admin != nullptr) {
    admin->Start(1);
  }
  return absl::OkStatus();
}

std::vector<std::unique_ptr<Listener>*> Server::State::Listeners() {
  std::vector<std::unique_ptr<Listener>*> listeners = {&everybody->listener()};
  if (admin != nullptr) {
    listeners.push_back(&admin->listener());
  }
  if (health_listener != nullptr) {
    listeners.push_back(&health_listener);
  }
  return listeners;
}

MetricsSources Server::State::Sources() const {
  return {.observer = observer,
          .executor = executor,
          .sessions = sessions,
          .models = models,
          .loader = loader.get(),
          .health = health,
          .exporter = exporter.get(),
          .queue_limits = ExecutorOptionsOf(options).queue,
          .version = ATTEND_VERSION,
          .grpc_version = grpc::Version(),
          .connections = CountConnections,
          .certificate_expiry = [&certificates = guards.certificates]() -> std::optional<double> {
            return certificates == nullptr
                       ? std::nullopt
                       : std::optional(absl::ToDoubleSeconds(certificates->Latest()->not_after -
                                                             absl::UnixEpoch()));
          }};
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
  ASSIGN_OR_RETURN(state->metrics, ServeMetrics(options.metrics_listen, state->Sources()));
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
  if (!state_->is_shut_down) {
    Shutdown(absl::ZeroDuration());
  }
}

const std::vector<std::string>& Server::listening_addresses() const {
  return state_->everybody->listener()->addresses();
}

std::string Server::admin_address() const {
  return state_->admin == nullptr ? "" : state_->admin->listener()->addresses().front();
}

std::string Server::health_address() const {
  return state_->health_listener == nullptr ? "" : state_->health_listener->addresses().front();
}

absl::Time Server::CertificateExpiry() const {
  return state_->guards.certificates == nullptr ? absl::InfiniteFuture()
                                                : state_->guards.certificates->Latest()->not_after;
}

std::string Server::metrics_address() const {
  return state_->metrics == nullptr ? "" : state_->metrics->address();
}

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
  for (std::unique_ptr<Listener>* const listener : state.Listeners()) {
    (*listener)->RemoveSockets();
  }
  if (state.exporter != nullptr) {
    state.exporter->Finish();
  }
}

void Server::Shutdown(absl::Duration grace) {
  Drain(grace);
  State& state = *state_;
  state.is_shut_down = true;
  const std::vector<std::unique_ptr<Listener>*> listeners = state.Listeners();
  for (std::unique_ptr<Listener>* const listener : listeners) {
    (*listener)->Close(kFlushTime);
  }
  state.live_calls.WaitUntilEmpty(TimePoint::max());
  for (std::unique_ptr<Listener>* const listener : listeners) {
    listener->reset();
  }
}

}  // namespace attention
