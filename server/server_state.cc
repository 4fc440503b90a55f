#include "server/server_state.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/models/seeded_model.h"
#include "core/runtime/contain.h"
#include "core/runtime/cpu_budget.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "server/log/log.h"
#include "server/memory_need.h"
#include "server/security/exposure.h"
#include "server/services/calls/message_limits.h"
#include "server/services/calls/unknown_call.h"

namespace attention {
namespace {

// Names of models with a meaning of their own: attention without a model, and in health checks all
// models.
constexpr const char* kReservedNames[] = {kWithoutModel, "*"};

v1::ModelLimits LimitsOf(const ServerOptions& options) {
  v1::ModelLimits limits;
  limits.set_max_message_bytes(options.max_message_bytes);
  limits.set_max_queue_bytes(options.max_queue_bytes);
  limits.set_max_tokens(kMaxTokens);
  limits.set_max_sequences(kMaxSequences);
  limits.set_max_score_tables(kMaxScoreTables);
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
                    .max_cache_bytes = std::max<int64_t>(1, options.prefix_cache_bytes / 4),
                    .max_delay = std::chrono::microseconds(options.max_batch_delay_us)},
          .queue = {.max_bytes = options.max_queue_bytes,
                    .max_requests = options.max_queue_requests,
                    .max_wait_ns = absl::ToInt64Nanoseconds(options.max_queue_wait)},
          .max_reply_bytes = options.max_reply_bytes,
          .reply_patience = absl::ToChronoNanoseconds(options.reply_patience)};
}

// Returns null without a folder.
std::unique_ptr<ModelLoader> MakeLoader(const ServerOptions& options, ModelRepository& models,
                                        HealthRegistry& health) {
  if (options.models.folder.path.empty()) {
    return nullptr;
  }
  ModelLoaderOptions loader = options.models;
  loader.folder.reserved_names.insert(std::begin(kReservedNames), std::end(kReservedNames));
  for (const SeededModelSpec& spec : SeededModelsOf(options)) {
    loader.folder.reserved_names.insert(spec.name);
  }
  return std::make_unique<ModelLoader>(loader, models, health);
}

// Ignores the error of a default listener whose address is taken: the server starts without it.
absl::Status WithoutDefault(bool is_default, const absl::Status& status) {
  if (!is_default || !absl::IsUnavailable(status)) {
    return status;
  }
  Log(LogLevel::kWarning,
      absl::StrCat(std::string(status.message()),
                   "; the server starts without this listener, which no option asked for"));
  return absl::OkStatus();
}

}  // namespace

ServerState::ServerState(const ServerOptions& given)
    : options(given),
      executor(ExecutorOptionsOf(given)),
      loader(MakeLoader(given, models, health)),
      observer(given.logged_requests),
      sessions({.max_sessions = given.max_sessions,
                .max_cache_bytes = given.max_cache_bytes,
                .max_waiting_bytes = MaxWaitingBytes(given),
                .max_table_bytes = MaxTableBytes(given),
                .max_prefix_bytes = given.prefix_cache_bytes}),
      idle(given.session_idle_timeout > absl::ZeroDuration() ? given.session_idle_timeout
                                                             : absl::InfiniteDuration()),
      parts{models,       executor,  loader.get(), observer,  sessions,  health,
            open_streams, receiving, idle,         admission, live_calls},
      health_access({.calls_without_work = given.calls_without_work}),
      health_calls{parts, health_access},
      health_service(health_calls) {}

absl::Status ServerState::Prepare() {
  ASSIGN_OR_RETURN(guards, OpenGuards(options));
  ASSIGN_OR_RETURN(exporter, StartTraces({.endpoint = options.otlp_endpoint,
                                          .header_file = options.otlp_headers,
                                          .sample_ratio = options.trace_sample_ratio,
                                          .version = ATTEND_VERSION}));
  observer.set_exporter(exporter.get());
  RETURN_IF_ERROR(AddSeededModels());
  SetReady(loader == nullptr);
  health.Set(kAllModels, loader == nullptr);
  if (loader != nullptr) {
    RETURN_IF_ERROR(Prefixed("--models", loader->Discover()));
  }
  return absl::OkStatus();
}

absl::Status ServerState::AddSeededModels() {
  health.Set(HealthNameOf(kWithoutModel), true);
  for (const SeededModelSpec& spec : SeededModelsOf(options)) {
    absl::Status status = std::ranges::find(kReservedNames, spec.name) == std::end(kReservedNames)
                              ? Contain("making the model", [&] { return models.AddSeeded(spec); })
                              : absl::InvalidArgumentError(
                                    "expected another name, since this one is the server's own");
    RETURN_IF_ERROR(Prefixed(absl::StrCat("--random-model ", spec.name), status));
    health.Set(HealthNameOf(spec.name), true);
  }
  return absl::OkStatus();
}

void ServerState::StartStallWatch() {
  const absl::Duration timeout = options.stall_timeout;
  if (timeout <= absl::ZeroDuration()) {
    return;
  }
  const auto on_change = [this, timeout](bool is_stalled) {
    health.SetStalled(is_stalled);
    if (is_stalled) {
      Log(LogLevel::kError, absl::StrCat("the compute threads stall: requests wait, and nothing "
                                         "was computed for ",
                                         absl::FormatDuration(timeout), " (--stall-timeout)"));
    } else {
      Log(LogLevel::kWarning, "the compute threads continue");
    }
  };
  // The C library keeps the memory of messages that were freed, up to 32 MiB each, in case that
  // others come. It gives it back to the system when it is told to.
  const auto on_idle = [] { malloc_trim(0); };
  stall_watch = std::make_unique<StallWatch>(
      absl::ToChronoNanoseconds(timeout), [this] { return executor.progress(); }, on_change,
      on_idle);
}

void ServerState::SetReady(bool is_ready) {
  for (const char* const name : {v1::AttentionService::service_full_name(),
                                 inference::GRPCInferenceService::service_full_name(), ""}) {
    health.Set(name, is_ready);
  }
}

ListenerOptions ServerState::ListenerOptionsOf(const std::string& flag, const Access& access) {
  return {.flag = flag,
          .addresses = {},
          .credentials = guards.credentials,
          .max_message_bytes = options.max_message_bytes,
          .limits = options.connections,
          .has_reflection = true,
          .live_calls = live_calls,
          .access = access};
}

absl::Status ServerState::ListenForHealth() {
  ListenerOptions health_only = ListenerOptionsOf("--health-listen", health_access);
  health_only.addresses = {options.health_listen};
  health_only.credentials = grpc::InsecureServerCredentials();
  health_only.max_message_bytes = kMaxOpenMessageBytes;
  health_only.has_reflection = false;
  ASSIGN_OR_RETURN(health_listener, Listener::Open(health_only, {&health_service.grpc_service()}));
  return absl::OkStatus();
}

std::unique_ptr<ServiceSet> ServerState::MakeServices(bool is_trusted) {
  return std::make_unique<ServiceSet>(
      ServiceSet::Shared{parts, options.allow_shared_memory ? &shared_memory : nullptr},
      Access::Rules{.tokens = guards.tokens.get(),
                    .is_trusted = is_trusted,
                    .calls_without_work = options.calls_without_work},
      LimitsOf(options));
}

absl::Status ServerState::ListenForAdmins() {
  if (options.admin_listen.empty()) {
    return absl::OkStatus();
  }
  admin = MakeServices(TrustsAdminListener(options));
  ListenerOptions for_admins = ListenerOptionsOf("--admin-listen", admin->access());
  for_admins.addresses = {options.admin_listen};
  if (const absl::Status status = admin->Open(for_admins); !status.ok()) {
    admin.reset();
    return WithoutDefault(options.is_default_admin_listen, status);
  }
  for (ServiceSet* const set : {all_callers.get(), admin.get()}) {
    set->access().set_admin_address(admin->listener()->addresses().front());
  }
  return absl::OkStatus();
}

absl::Status ServerState::ListenForMetrics() {
  absl::StatusOr<std::unique_ptr<HttpListener>> listener =
      ServeMetrics(options.metrics_listen, Sources());
  if (!listener.ok()) {
    return WithoutDefault(options.is_default_metrics_listen, listener.status());
  }
  metrics = *std::move(listener);
  return absl::OkStatus();
}

absl::Status ServerState::Listen() {
  receiving.Start(absl::ToChronoNanoseconds(options.receive_tick));
  idle.Start();
  all_callers = MakeServices(/*is_trusted=*/false);
  ListenerOptions for_callers = ListenerOptionsOf("--listen", all_callers->access());
  for_callers.addresses = options.listen;
  for_callers.has_reflection = guards.tokens == nullptr;
  RETURN_IF_ERROR(all_callers->Open(for_callers));
  RETURN_IF_ERROR(ListenForAdmins());
  if (!options.health_listen.empty()) {
    RETURN_IF_ERROR(ListenForHealth());
    health_calls.queue = health_listener->queue();
    health_service.Start();
    health_listener->StartThreads(1);
  }
  all_callers->Start(std::clamp(CpuBudget(), 1, 4));
  if (admin != nullptr) {
    admin->Start(1);
  }
  return absl::OkStatus();
}

std::vector<std::unique_ptr<Listener>*> ServerState::Listeners() {
  std::vector<std::unique_ptr<Listener>*> listeners = {&all_callers->listener()};
  if (admin != nullptr) {
    listeners.push_back(&admin->listener());
  }
  if (health_listener != nullptr) {
    listeners.push_back(&health_listener);
  }
  return listeners;
}

int64_t ServerState::SumOf(int64_t (Listener::*count)() const) {
  int64_t sum = 0;
  for (const std::unique_ptr<Listener>* const listener : Listeners()) {
    sum += (**listener.*count)();
  }
  return sum;
}

MetricsSources ServerState::Sources() {
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
          .connections = [this] { return SumOf(&Listener::CountConnections); },
          .refused_connections = [this] { return SumOf(&Listener::refused_connections); },
          .delayed_connections = [this] { return SumOf(&Listener::delayed_connections); },
          .unknown_calls = &UnknownCall::count,
          .certificate_expiry = [&certificates = guards.certificates]() -> std::optional<double> {
            return certificates == nullptr
                       ? std::nullopt
                       : std::optional(absl::ToDoubleSeconds(certificates->Latest()->not_after -
                                                             absl::UnixEpoch()));
          },
          .credential_files = [this] { return guards.CheckFiles(); }};
}

}  // namespace attention
