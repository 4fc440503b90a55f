// The rights of callers to the methods of a listener.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/security/caller.h"
#include "server/security/tokens.h"
#include "server/sockets/connection_pace.h"

namespace attention {

/// The right that a method needs.
enum class Right {
  kNone,  // any caller: health, reflection, ServerLive and ServerReady
  kCall,
  kAdmin,
};

/// Checks the callers of one listener. Outlives its calls; thread-safe.
class Access {
 public:
  struct Rules {
    /// Null: callers need no token. Outlives this.
    TokenStore* tokens = nullptr;
    /// Whether every caller of the listener is an administrator, and needs no token.
    bool is_trusted = false;
    /// The calls without work that a host may make at once, and in each second, before its new
    /// connections have to wait.
    int64_t calls_without_work = 250;
  };
  explicit Access(const Rules& rules) : rules_(rules), pace_(rules.calls_without_work) {}

  /// Sets the address for administrators; empty: none. Called before the first call.
  void set_admin_address(const std::string& address) { admin_address_ = address; }

  /// Returns the caller of a call by its headers: its bearer token, or else the client's
  /// certificate. UNAUTHENTICATED without a valid token where one is needed; PERMISSION_DENIED
  /// without the right that `rpc` needs, with the address where the caller may call.
  absl::StatusOr<Caller> Admit(const grpc::ServerContext& context, Right right,
                               std::string_view rpc) const;

  /// Counts a call at its arrival: it brings no work yet.
  void CountCall(const grpc::ServerContext& context) const;
  /// Notes that the first request of a call has arrived, so that the call no longer counts as one
  /// without work. A call that needs no right still counts.
  void CountRequest(const grpc::ServerContext& context, Right right) const;
  /// Counts a request that was wrong: a connection with thousands of them in a second is ended.
  void CountWrong(const grpc::ServerContext& context) const { pace_.CountWrong(context.peer()); }
  /// The pace of the hosts whose calls bring no work.
  ConnectionPace& pace() const { return pace_; }

 private:
  absl::StatusOr<Caller> Authenticate(const grpc::ServerContext& context) const;

  const Rules rules_;
  mutable ConnectionPace pace_;
  std::string admin_address_;
};

/// Returns the account in whose shares a call counts, as a readable text: the tenant of a token or
/// a certificate, or else the host of the caller. It never depends on unproven names.
std::string AccountOf(const Caller& caller, const grpc::ServerContext& context);

}  // namespace attention
