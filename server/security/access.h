// Who may call what on a listener.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/security/caller.h"
#include "server/security/tokens.h"

namespace attention {

/// Of a method.
enum class Right {
  kNone,  // everybody: health
  kCall,
  kAdmin,
};

/// Of one listener, outlives its calls; thread-safe.
class Access {
 public:
  struct Rules {
    /// Null: no token is needed. Outlives this.
    TokenStore* tokens = nullptr;
    /// Who reaches the listener is an administrator, and needs no token.
    bool is_trusted = false;
  };
  explicit Access(const Rules& rules) : rules_(rules) {}

  /// Where administrators are served; empty: nowhere. Before the first call.
  void set_admin_address(const std::string& address) { admin_address_ = address; }

  /// By the call's headers: its bearer token, or else the client's certificate. UNAUTHENTICATED
  /// without a valid token where one is needed; PERMISSION_DENIED without the right that `rpc`
  /// needs, which says where to ask.
  absl::StatusOr<Caller> Admit(const grpc::ServerContext& context, Right right,
                               std::string_view rpc) const;

 private:
  absl::StatusOr<Caller> Authenticate(const grpc::ServerContext& context) const;

  const Rules rules_;
  std::string admin_address_;
};

/// In whose shares counts what a call holds, to be read: the tenant that a token or a certificate
/// names, or else all callers of its machine; never what the caller says of itself.
std::string AccountOf(const Caller& caller, const grpc::ServerContext& context);

}  // namespace attention
