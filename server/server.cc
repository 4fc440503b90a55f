#include "server/server.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/time_after.h"
#include "server/scheduling/refusal.h"
#include "server/server_state.h"

namespace attention {
namespace {

// The time for answers that are still being sent when all requests are answered, before connections
// are closed.
constexpr absl::Duration kFlushTime = absl::Milliseconds(200);
// The maximum time for the refusals of what the grace period leaves. Callers that read take a
// moment.
constexpr absl::Duration kRefusalTime = absl::Seconds(2);

// The time between two looks at the open connections.
constexpr absl::Duration kConnectionTick = absl::Milliseconds(50);

// Serves the open connections of --listen, and accepts no others there, until all are closed or
// `delay` has passed.
// A connection closes when its age makes gRPC send GOAWAY, so no call of its client is lost.
void ServeUntilUnused(ServerState& state, absl::Duration delay) {
  if (delay <= absl::ZeroDuration()) {
    return;
  }
  Listener& listener = *state.all_callers->listener();
  listener.StopAccepting();
  state.health.Close();  // watches would keep connections open
  const TimePoint end = TimeAfter(delay);
  while (listener.CountConnections() > 0 && std::chrono::steady_clock::now() < end) {
    absl::SleepFor(kConnectionTick);
  }
}

// Keeps gRPC from shutting down: its shutdown sometimes waits 10 s for a poller of its own, which
// would delay the end of the process.
void KeepGrpcLoaded() {
  static const bool is_loaded = (grpc_init(), true);
  static_cast<void>(is_loaded);
}

// Refuses new requests, waits for `grace` until the running ones are answered, and ends the others.
void EndRequests(ServerState& state, absl::Duration grace) {
  state.admission.Close();
  if (state.loader != nullptr) {
    state.loader->Close();
  }
  const TimePoint end = TimeAfter(grace);
  state.admission.WaitUntilEmpty(end);
  state.executor.Stop();
  const TimePoint sent = std::max(end, TimeAfter(kRefusalTime));
  state.admission.WaitUntilEmpty(sent);
  state.idle.EndAll(Draining());
  state.health.Close();
  for (std::unique_ptr<Listener>* const listener : state.Listeners()) {
    (*listener)->RemoveSockets();
    // A process that ends while a client still sends resets the connection, and the system drops
    // what it has not delivered yet.
    (*listener)->AwaitSent(sent);
  }
  if (state.metrics != nullptr) {
    state.metrics->RemoveSocket();
  }
  if (state.exporter != nullptr) {
    state.exporter->Finish();
  }
}

}  // namespace

absl::Status Server::Check(const ServerOptions& options) {
  KeepGrpcLoaded();
  ServerState state(options);
  return state.Prepare();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  KeepGrpcLoaded();
  auto state = std::make_unique<ServerState>(options);
  RETURN_IF_ERROR(state->Prepare());
  RETURN_IF_ERROR(state->Listen());
  std::unique_ptr<Server> server(new Server(std::move(state)));  // it shuts down after an error
  ServerState& started = *server->state_;
  RETURN_IF_ERROR(started.ListenForMetrics());
  started.StartStallWatch();
  if (started.loader != nullptr) {
    // Models are loaded while the server serves: loaded models can be used at once, and health
    // reports when all are loaded.
    started.loading.TryEnter();
    started.loader->Start([&started] {
      started.SetReady(true);
      started.loading.Leave();
    });
  }
  return server;
}

Server::Server(std::unique_ptr<ServerState> state) : state_(std::move(state)) {}

Server::~Server() {
  if (!state_->is_shut_down) {
    Shutdown(absl::ZeroDuration());
  }
}

const std::vector<std::string>& Server::listening_addresses() const {
  return state_->all_callers->listener()->addresses();
}

std::string Server::admin_address() const {
  return state_->admin == nullptr ? "" : state_->admin->listener()->addresses().front();
}

std::string Server::health_address() const {
  return state_->health_listener == nullptr ? "" : state_->health_listener->addresses().front();
}

std::string Server::metrics_address() const {
  return state_->metrics == nullptr ? "" : state_->metrics->address();
}

bool Server::WaitUntilReady(absl::Duration patience) {
  return state_->loading.WaitUntilEmpty(TimeAfter(patience));
}

void Server::Drain(absl::Duration grace) {
  ServerState& state = *state_;
  state.health.Drain();
  ServeUntilUnused(state, state.options.drain_delay);
  EndRequests(state, grace);
}

void Server::Shutdown(absl::Duration grace) {
  ServerState& state = *state_;
  state.health.Drain();
  EndRequests(state, grace);
  state.is_shut_down = true;
  state.metrics.reset();  // it asks the listeners
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
