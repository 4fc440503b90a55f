// What a server can be told, and how: by flags, in the environment, in a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/models/model.h"
#include "server/models/model_loader.h"
#include "server/observability/log.h"
#include "server/observability/requests.h"

namespace attention {

/// Of connections; a time of zero is none.
struct ConnectionLimits {
  /// Open at once, of each address option.
  int64_t max_connections = 16384;
  /// Calls under way.
  int max_streams = 1024;
  /// Of a call's headers.
  int max_header_bytes = 16384;
  /// From then on its calls have max_age_grace to end, and new ones go elsewhere. gRPC varies the
  /// age by a tenth, so that connections do not all end at once.
  absl::Duration max_age = absl::ZeroDuration();
  absl::Duration max_age_grace = absl::ZeroDuration();
  /// Without a call.
  absl::Duration max_idle = absl::Minutes(30);
};

struct ServerOptions {
  /// host:port (port 0: any free one) or unix:/path.
  std::vector<std::string> listen = {"127.0.0.1:8001"};
  /// Where administrators are served too; empty: nowhere.
  std::string admin_listen = {};
  /// Nobody asked for that address: where it is taken the server does without, and says so.
  bool is_default_admin_listen = false;
  /// Where health is served in plaintext, and nothing else; empty: nowhere.
  std::string health_listen = {};
  /// Plaintext may be spoken with other machines, on every address.
  bool insecure = false;
  /// Files in PEM form; both or none. With them every address but health_listen speaks TLS.
  std::string tls_certificate = {};
  std::string tls_key = {};
  /// Clients show a certificate that was signed by one of this file. Empty: they need none.
  std::string tls_client_ca = {};
  /// File of the tokens that callers need; empty: they need none.
  std::string tokens = {};
  ConnectionLimits connections = {};
  /// Served beside the built-in model.
  std::vector<SeededModelSpec> random_models = {};
  /// `path` is empty when no folder of models is served.
  ModelLoaderOptions models = {};
  /// Compute threads; 0: as many as this process may use cores.
  int threads = 0;
  int64_t max_message_bytes = int64_t{256} << 20;
  int64_t max_queue_bytes = int64_t{1} << 30;
  int64_t max_queue_requests = 8192;
  /// Of replies that are to be computed or on their way out.
  int64_t max_reply_bytes = int64_t{1} << 30;
  /// From when a reply has been computed until it may be given up, where others need its room.
  absl::Duration reply_patience = absl::Seconds(30);
  /// Estimated time that what waits takes.
  absl::Duration max_queue_wait = absl::Seconds(5);
  int64_t max_batch_tokens = 4096;
  int64_t max_batch_delay_us = 0;
  LoggedRequests logged_requests = LoggedRequests::kFailed;
  /// Of the process; the program applies them.
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  /// host:port where /metrics is; empty: nowhere. The flag's default is an address.
  std::string metrics_listen = {};
  /// Other machines may reach it, in plaintext: its readers speak nothing else.
  bool metrics_insecure = false;
  /// As is_default_admin_listen.
  bool is_default_metrics_listen = false;
  /// URL of a collector of traces; empty: none.
  std::string otlp_endpoint = {};
  /// File of headers for it; empty: none.
  std::string otlp_headers = {};
  /// Of requests without a trace of their own: the share that begins one.
  double trace_sample_ratio = 1;
  /// Of the keys and values of all sessions.
  int64_t max_cache_bytes = int64_t{1} << 30;
  int64_t max_sessions = 16384;
  /// Without an action, until a session's stream is ended; zero: it never is.
  absl::Duration session_idle_timeout = absl::Hours(1);
  /// Clients may name shared memory of this machine for the server to read and write.
  bool allow_shared_memory = false;
  /// How often messages on their way in are looked at; no option: tests make it short.
  absl::Duration receive_tick = absl::Seconds(1);
  absl::Duration grace_period = absl::Seconds(30);
};

/// Variables by name.
using Environment = std::map<std::string, std::string>;

/// What a command line asks for.
struct ParsedCommandLine {
  /// Not empty: print this and exit with success (--help, --version, --print-config).
  std::string text;
  /// Say whether a server would start with these options, and exit (--check-config).
  bool is_check = false;
  ServerOptions options;
  /// To log: variables that look like options and are none.
  std::vector<std::string> warnings;
};

/// Flags win over the environment, that over the file (--config), that over the defaults.
/// INVALID_ARGUMENT names flag, variable, or file and key, what was expected and what was found;
/// NOT_FOUND: the file is not there.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const Environment& environment = {});

}  // namespace attention
