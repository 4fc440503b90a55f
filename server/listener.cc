#include "server/listener.h"

#include <grpc/grpc.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "core/runtime/prefixed.h"
#include "server/services/calls/unknown_call.h"

namespace attention {
namespace {

// The time from the TCP connection to the first HTTP/2 frames. A slower client holds a connection
// and nothing else, and is disconnected.
constexpr int kHandshakeTimeoutMs = 10'000;
constexpr int kPostedUnknownCalls = 2;

// Keeps linked libraries from adding themselves to every server of the process.
class NoPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

void SetLimits(const ListenerOptions& options, grpc::ServerBuilder& builder) {
  const ConnectionLimits& limits = options.limits;
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // replies are refused before they are computed
  // gRPC would inflate a whole message before it checked its size: see proto/codec/inflate.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.max_header_bytes);
#ifdef GRPC_ARG_ABSOLUTE_MAX_METADATA_SIZE
  // Recent gRPC rejects headers at random between the soft limit above and this hard limit, so both
  // are equal.
  builder.AddChannelArgument(GRPC_ARG_ABSOLUTE_MAX_METADATA_SIZE, limits.max_header_bytes);
#endif
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  const std::pair<const char*, absl::Duration> times[] = {
      {GRPC_ARG_MAX_CONNECTION_AGE_MS, limits.max_age},
      {GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, limits.max_age_grace},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.max_idle}};
  for (const auto& [name, time] : times) {
    if (time > absl::ZeroDuration()) {
      builder.AddChannelArgument(name, static_cast<int>(absl::ToInt64Milliseconds(time)));
    }
  }
}

void SetTransport(grpc::ServerBuilder& builder) {
  // Allows pings of idle clients, otherwise gRPC would answer "too_many_pings". Our clients send
  // one every 10 s; the limit is half of that, because pings may be held up on their way.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Each stream begins with a window of 4 MiB. With the default of 64 KiB a tensor would take many
  // round trips.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  // The window does not grow: on a fast connection gRPC would otherwise let each stream send up to
  // 32 MiB that no call has asked for. A message that is being read has a window of its own size.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  // Detects clients that vanished, so that they do not hold the memory of their answers.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(
    const ListenerOptions& options, const std::vector<grpc::Service*>& services) {
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  SetTransport(builder);
  builder.SetOption(std::make_unique<NoPlugins>());
  std::unique_ptr<Listener> listener(new Listener(options));
  for (const std::string& address : options.addresses) {
    absl::StatusOr<ListeningSockets> listening = ListenOn(address);
    if (!listening.ok()) {
      return Prefixed(options.flag, listening.status());
    }
    listener->addresses_.push_back(listening->address);
    if (listening->file.has_value()) {
      listener->socket_files_.push_back(*std::move(listening->file));
    }
    std::move(listening->sockets.begin(), listening->sockets.end(),
              std::back_inserter(listener->sockets_));
  }
  listener->connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, options.credentials);
  for (grpc::Service* const service : services) {
    builder.RegisterService(service);
  }
  builder.RegisterAsyncGenericService(&listener->unknown_methods_);
  listener->threads_ = std::make_unique<CompletionThreads>(builder.AddCompletionQueue());
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::InternalError("the gRPC server did not start");
  }
  return listener;
}

void Listener::StartThreads(int num_threads) {
  for (int i = 0; i < kPostedUnknownCalls; ++i) {
    UnknownCall::Post({unknown_methods_, queue(), live_calls_, access_});
  }
  threads_->Start(num_threads);
  acceptor_ = std::make_unique<ConnectionAcceptor>(
      std::move(sockets_), max_connections_, access_.pace(),
      [this](int listener, FileDescriptor connection) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
        taken.listener_fd = listener;
        taken.fd = connection.Release();
        connections_->HandleNewConnection(&taken);
      });
}

void Listener::StopAccepting() {
  RemoveSockets();  // while the sockets are open
  acceptor_->Stop();
}

void Listener::RemoveSockets() { socket_files_.clear(); }

void Listener::Close(absl::Duration flush_time) {
  acceptor_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(absl::ToChronoTime(absl::Now() + flush_time));
  }
}

Listener::~Listener() {
  Close(absl::ZeroDuration());
  threads_.reset();
}

}  // namespace attention
