// The options of a server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/models/model.h"
#include "server/log/log.h"
#include "server/models/model_loader.h"
#include "server/observability/requests.h"

namespace attention {

/// The limits of connections. A time of zero means that there is no limit.
struct ConnectionLimits {
  /// The maximum number of open connections of each listener.
  int64_t max_connections = 16384;
  /// The maximum number of concurrent calls of a connection.
  int max_streams = 1024;
  /// The maximum size of the headers of a call.
  int max_header_bytes = 16384;
  /// The age at which a connection takes no new calls, which then go to other connections. Its
  /// calls have `max_age_grace` to end. gRPC varies the age by a tenth, so that connections do not
  /// all end at once.
  absl::Duration max_age = absl::ZeroDuration();
  absl::Duration max_age_grace = absl::ZeroDuration();
  /// The time without a call after which a connection is closed.
  absl::Duration max_idle = absl::Minutes(30);
};

/// What the server does on a machine of several NUMA nodes.
enum class NumaMode {
  kAuto,    // threads are pinned to nodes, large memory comes from all nodes in turn
  kCopies,  // the same, but each node has a copy of the weights
  kOff,     // threads and memory are left to the system
};

struct ServerOptions {
  /// HOST:PORT (port 0: any free port) or unix:/PATH.
  std::vector<std::string> listen = {"127.0.0.1:8001"};
  /// The address that also serves administrators; empty: none, the default of this struct. The
  /// option's default is 127.0.0.1:8003.
  std::string admin_listen = {};
  /// True if no option set that address. The server then starts without this listener when the
  /// address is taken, and logs it.
  bool is_default_admin_listen = false;
  /// The address that serves only health, in plaintext; empty: none.
  std::string health_listen = {};
  /// Whether plaintext, and administration without tokens, are allowed on addresses that other
  /// machines can reach.
  bool insecure = false;
  /// The files of certificate and key in PEM form; both or none. With them every address but
  /// `health_listen` uses TLS.
  std::string tls_certificate = {};
  std::string tls_key = {};
  /// The file of the authorities that sign the certificates of clients. Empty: clients need no
  /// certificate.
  std::string tls_client_ca = {};
  /// The file of the tokens that callers need. Empty: callers need no token.
  std::string tokens = {};
  ConnectionLimits connections = {};
  /// Models that are served besides the built-in model.
  std::vector<SeededModelSpec> random_models = {};
  /// The folder of models; `path` is empty if there is none.
  ModelLoaderOptions models = {};
  /// The number of compute threads; 0: one for each core that this process may use.
  int threads = 0;
  int64_t max_message_bytes = int64_t{256} << 20;
  int64_t max_queue_bytes = int64_t{1} << 30;
  int64_t max_queue_requests = 8192;
  /// The maximum memory of replies that are not sent yet, computed or not.
  int64_t max_reply_bytes = int64_t{1} << 30;
  /// The time after which a computed reply may be dropped when others need its memory.
  absl::Duration reply_patience = absl::Seconds(30);
  /// The maximum estimated time to compute all waiting requests.
  absl::Duration max_queue_wait = absl::Seconds(5);
  int64_t max_batch_tokens = 4096;
  int64_t max_batch_delay_us = 0;
  LoggedRequests logged_requests = LoggedRequests::kFailed;
  /// Settings of the process, which the program applies.
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  NumaMode numa = NumaMode::kAuto;
  /// HOST:PORT or unix:/PATH of /metrics; empty: none, the default of this struct. The option's
  /// default is 127.0.0.1:8002.
  std::string metrics_listen = {};
  /// Whether other machines may reach /metrics, which has no TLS.
  bool metrics_insecure = false;
  /// True if no option set metrics_listen. It has the effect of is_default_admin_listen.
  bool is_default_metrics_listen = false;
  /// The URL of a collector of traces; empty: none.
  std::string otlp_endpoint = {};
  /// The file of headers for the collector; empty: none.
  std::string otlp_headers = {};
  /// The share of requests without a trace for which the server starts one, 0 to 1.
  double trace_sample_ratio = 1;
  /// The maximum memory of the keys and values of all sessions.
  int64_t max_cache_bytes = int64_t{1} << 30;
  /// The maximum bytes of the prefix cache, within max_cache_bytes; 0 turns it off.
  int64_t prefix_cache_bytes = 0;
  int64_t max_sessions = 16384;
  /// The time without a request, or without an answer taken, after which a stream is ended; zero:
  /// never.
  absl::Duration session_idle_timeout = absl::Hours(1);
  /// Whether clients may name shared memory of this machine for the server to read and write.
  bool allow_shared_memory = false;
  /// The interval at which incoming messages are checked. No flag sets it; tests make it short.
  absl::Duration receive_tick = absl::Seconds(1);
  /// The calls without work that a host may make at once, and in each second, before its new
  /// connections have to wait. No flag sets it; tests make it small.
  int64_t calls_without_work = 250;
  /// The time without progress of the compute threads after which health is NOT_SERVING; zero:
  /// never.
  absl::Duration stall_timeout = absl::Minutes(1);
  /// The time for which a draining server still accepts calls on open connections.
  absl::Duration drain_delay = absl::ZeroDuration();
  /// The time after drain_delay for which running requests may continue.
  absl::Duration grace_period = absl::Seconds(30);
};

}  // namespace attention
