#include "client/lib/channel.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/lib/channel_target.h"
#include "client/lib/retry_policy.h"
#include "core/runtime/presented_status.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"

namespace attention {

namespace {

/// The expected content of a PEM file, and the line by which it is recognized.
struct PemKind {
  const char* name;
  const char* line;
};
constexpr PemKind kCertificate = {"certificate", "-----BEGIN CERTIFICATE-----"};
constexpr PemKind kKey = {"private key", "PRIVATE KEY-----"};

/// Returns `path` as errors show it. PEM text in its place may be a secret.
std::string Shown(const std::string& path) {
  return absl::StrContains(path, "-----BEGIN") ? "PEM text in place of a path" : path;
}

absl::StatusOr<std::string> ReadPem(const char* option, const std::string& path,
                                    const PemKind& kind) {
  if (path.empty()) {
    return std::string();
  }
  absl::StatusOr<std::string> text = ReadTextFile(path, /*max_bytes=*/16 << 20);
  if (!text.ok() && Shown(path) == path) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": ", std::string(text.status().message())));
  }
  if (!text.ok() || !absl::StrContains(*text, kind.line)) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": expected a file with a PEM ",
                                                   kind.name, ", found none at ", Shown(path)));
  }
  return text;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const std::optional<TlsOptions>& tls) {
  if (!tls.has_value()) {
    return grpc::InsecureChannelCredentials();
  }
  if (tls->certificate_file.empty() != tls->key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate and key: expected both or none, found ",
                     tls->key_file.empty() ? "no key to " : "no certificate to ",
                     Shown(tls->certificate_file), Shown(tls->key_file)));
  }
  grpc::SslCredentialsOptions ssl;
  ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem("ca", tls->ca_file, kCertificate));
  ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadPem("certificate", tls->certificate_file, kCertificate));
  ASSIGN_OR_RETURN(ssl.pem_private_key, ReadPem("key", tls->key_file, kKey));
  return grpc::SslCredentials(ssl);
}

constexpr char kAuthorization[] = "authorization";

class AddMetadata : public grpc::experimental::Interceptor {
 public:
  explicit AddMetadata(const ClientMetadata& metadata) : metadata_(metadata) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert(metadata_.begin(), metadata_.end());
    }
    methods->Proceed();
  }

 private:
  const ClientMetadata& metadata_;
};

/// Adds the metadata to each call. It lives as long as its channel, and so longer than the calls.
class AddMetadataFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AddMetadataFactory(const ClientMetadata& metadata) : metadata_(metadata) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new AddMetadata(metadata_);
  }

 private:
  const ClientMetadata metadata_;
};

// The headers of a connection, which HTTP/2 does not carry with a call.
constexpr const char* kConnectionHeaders[] = {
    "connection", "http2-settings",    "keep-alive", "proxy-connection",
    "te",         "transfer-encoding", "upgrade"};

/// Returns INVALID_ARGUMENT for metadata that gRPC does not accept: gRPC would end the process.
absl::Status Check(const std::string& name, const std::string& value) {
  const grpc_slice name_slice = grpc_slice_from_static_buffer(name.data(), name.size());
  const grpc_slice value_slice = grpc_slice_from_static_buffer(value.data(), value.size());
  if (!grpc_header_key_is_legal(name_slice) || absl::StartsWith(name, "grpc-") ||
      std::ranges::find(kConnectionHeaders, name) != std::end(kConnectionHeaders)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata: expected a name of a-z, 0-9, \"-\", \"_\" and \".\" that does not begin with "
        "\"grpc-\" and is no header of a connection, found \"",
        name, "\""));
  }
  if (!grpc_is_binary_header(name_slice) && !grpc_header_nonbin_value_is_legal(value_slice)) {
    // The text leaves out the value, which may be a secret.
    return absl::InvalidArgumentError(
        absl::StrCat("metadata: expected printable ASCII as the value of \"", name,
                     "\" (names that end in \"-bin\" take any bytes)"));
  }
  return absl::OkStatus();
}

absl::Status CheckSecrecy(const ConnectionOptions& options) {
  if (options.tls.has_value()) {
    return absl::OkStatus();
  }
  for (const std::string& server : ServersOf(options.server)) {
    if (!IsOnThisMachine(server)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "token: expected TLS (--tls) to another machine, found a plaintext connection to ",
          server, ", which would disclose it"));
    }
  }
  return absl::OkStatus();
}

/// Returns interceptors that add `metadata` to all calls of a channel; none if it is empty.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> InterceptorsFor(
    const ClientMetadata& metadata) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  if (!metadata.empty()) {
    factories.push_back(std::make_unique<AddMetadataFactory>(metadata));
  }
  return factories;
}

/// Which calls gRPC itself repeats, and which servers it leaves out.
struct CallPolicy {
  /// Whether servers whose health is not SERVING, such as those that drain, are left out. A server
  /// without a health service counts as serving.
  bool watch_health = false;
  /// Whether gRPC repeats calls that never reached a server.
  bool retries = false;
  /// Whether gRPC repeats calls that a server could not take, on the next server.
  bool grpc_policy = false;
};

void SetCallPolicy(const CallPolicy& policy, grpc::ChannelArguments& arguments) {
  std::string config = R"({"loadBalancingConfig":[{"round_robin":{}}])";
  if (policy.watch_health) {
    absl::StrAppend(&config, R"(,"healthCheckConfig":{"serviceName":""})");
  }
  if (policy.grpc_policy) {
    const std::string names =
        absl::StrJoin(kRepeatable, ",", [](std::string* out, const char* method) {
          const std::vector<std::string> parts = absl::StrSplit(method, '/');
          absl::StrAppend(out, R"({"service":")", parts[0], R"(","method":")", parts[1], R"("})");
        });
    absl::StrAppend(&config, R"(,"methodConfig":[{"name":[)", names,
                    R"(],"retryPolicy":{"maxAttempts":)", kMaxAttempts, R"(,"initialBackoff":")",
                    absl::ToDoubleSeconds(kInitialBackoff),
                    R"(s","maxBackoff":"2s","backoffMultiplier":2,)",
                    R"("retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}],)",
                    R"("retryThrottling":{"maxTokens":)", kRetryTokens, R"(,"tokenRatio":1})");
  }
  arguments.SetServiceConfigJSON(config + "}");
  // Configurations from DNS are ignored.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, policy.retries ? 1 : 0);
  // No limit, because gRPC only keeps counted references to the bytes of the caller.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, INT_MAX);
}

grpc::ChannelArguments ArgumentsOf(const CallPolicy& policy, bool own_connection) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Large windows and frames from the first call on, instead of after a slow start.
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, own_connection ? 1 : 0);
  // Detects vanished peers, and keeps idle connections alive in load balancers. While no call runs,
  // gRPC looks at its connections every 5 s only: the answer to a ping, and each of the two steps
  // of connecting, may wait so long.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 15'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  // A proxy that the environment names would answer for a missing server.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Reconnects to a server that is back before the last retry of a call.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   15'000);  // the time to connect, despite its name
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2'000);
  SetCallPolicy(policy, arguments);
  return arguments;
}

/// Sets the one name that gRPC expects in all certificates of a channel.
absl::Status SetServerName(const std::optional<TlsOptions>& tls, const ChannelTarget& target,
                           grpc::ChannelArguments& arguments) {
  if (tls.has_value() && !tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(tls->server_name);
  } else if (tls.has_value() && target.is_list && target.common_host.empty()) {
    return absl::InvalidArgumentError(
        "server_name: expected the one name of all certificates, for TLS to a list of different "
        "hosts, found none");
  } else if (target.is_list) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY,
                        target.common_host.empty() ? "attend" : target.common_host);
  }
  return absl::OkStatus();
}

/// What to change, by the words of OpenSSL or of gRPC about a connection that failed.
const char* ProtocolHint(absl::string_view text) {
  if (absl::StrContains(text, "wrong version number")) {
    return " (the server speaks no TLS: connect without --tls)";
  }
  if (absl::StrContains(text, "http1.x server") || absl::StrContains(text, "parsing HTTP/2")) {
    return " (the server speaks no HTTP/2: is this the port of /metrics, or a proxy that needs "
           "--tls?)";
  }
  const bool is_closed = absl::StrContains(text, "Socket closed") ||
                         absl::StrContains(text, "Connection reset by peer");
  return absl::StrContains(text, "last error: ") && is_closed
             ? " (the server closed the new connection: does it need --tls, or --certificate?)"
             : "";
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> Make(const ConnectionOptions& options,
                                                                 int count, bool is_load) {
  // gRPC stays initialized until the process ends: in gRPC 1.51, its shutdown can take 10 s.
  static const bool is_loaded = (grpc_init(), true);
  (void)is_loaded;
  ASSIGN_OR_RETURN(const ChannelTarget target, TargetOf(options.server));
  ASSIGN_OR_RETURN(const ClientMetadata metadata, MetadataOf(options));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                   CredentialsOf(options.tls));
  // A single server is called whatever its health.
  const CallPolicy policy = {.watch_health = target.is_group,
                             .retries = options.retries,
                             .grpc_policy = is_load && options.retries};
  grpc::ChannelArguments arguments = ArgumentsOf(policy, /*own_connection=*/is_load);
  RETURN_IF_ERROR(SetServerName(options.tls, target, arguments));
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < count; ++i) {
    channels.push_back(grpc::experimental::CreateCustomChannelWithInterceptors(
        target.uri, credentials, arguments, InterceptorsFor(metadata)));
  }
  return channels;
}

}  // namespace

absl::Status WithServer(const absl::Status& status, const ConnectionOptions& options) {
  if (status.code() != absl::StatusCode::kUnavailable) {
    return status;
  }
  const std::string text(status.message());
  return WithText(status, absl::StrCat("server ", options.server, ": ", text, ProtocolHint(text)));
}

absl::StatusOr<ClientMetadata> MetadataOf(const ConnectionOptions& options) {
  ClientMetadata metadata = options.metadata;
  const absl::string_view token = absl::StripAsciiWhitespace(options.token);
  if (!token.empty()) {
    std::erase_if(metadata, [](const auto& entry) { return entry.first == kAuthorization; });
    metadata.emplace_back(kAuthorization, absl::StrCat("Bearer ", token));
  }
  for (const auto& [name, value] : metadata) {
    RETURN_IF_ERROR(Check(name, value));
    if (name == kAuthorization) {
      RETURN_IF_ERROR(CheckSecrecy(options));
    }
  }
  return metadata;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ConnectionOptions& options) {
  ASSIGN_OR_RETURN(const auto channels, Make(options, 1, /*is_load=*/false));
  return channels.front();
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ConnectionOptions& options, int count) {
  return Make(options, count, /*is_load=*/true);
}

}  // namespace attention
