#include "server/security/access.h"

#include <grpcpp/security/auth_context.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/runtime/status_macros.h"
#include "server/sockets/peer_host.h"

namespace attention {
namespace {

constexpr char kScheme[] = "bearer ";

absl::StatusOr<std::string> BearerToken(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  const std::string value =
      found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
  if (metadata.count("authorization") != 1 || !absl::StartsWithIgnoreCase(value, kScheme)) {
    return absl::UnauthenticatedError(
        absl::StrCat("authorization: expected metadata \"Bearer TOKEN\", found ",
                     value.empty() ? "none" : "other text"));
  }
  return value.substr(sizeof(kScheme) - 1);
}

// Returns the first of the certificate's alternative names, or else its common name.
std::string CertificateName(const grpc::ServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) {
    return "";
  }
  const std::vector<grpc::string_ref> names = peer->GetPeerIdentity();
  return names.empty() ? "" : std::string(names.front().data(), names.front().size());
}

}  // namespace

absl::StatusOr<Caller> Access::Authenticate(const grpc::ServerContext& context) const {
  if (rules_.is_trusted || rules_.tokens == nullptr) {
    return Caller{.tenant = CertificateName(context),
                  .has_admin_right = rules_.is_trusted,
                  .max_priority = rules_.is_trusted ? Priority::kHigh : Priority::kNormal};
  }
  ASSIGN_OR_RETURN(const std::string token, BearerToken(context));
  return rules_.tokens->Find(token);
}

absl::StatusOr<Caller> Access::Admit(const grpc::ServerContext& context, Right right,
                                     std::string_view rpc) const {
  if (right == Right::kNone) {
    return Caller();
  }
  ASSIGN_OR_RETURN(Caller caller, Authenticate(context));
  if (right == Right::kAdmin && !caller.has_admin_right) {
    return absl::PermissionDeniedError(absl::StrCat(
        std::string(rpc), ": expected a caller with the admin right, found one without; ask ",
        admin_address_.empty() ? "a server with an admin listener (--admin-listen)"
                               : absl::StrCat("the admin listener at ", admin_address_),
        ", or with a token that has the right (--tokens)"));
  }
  caller.account = AccountOf(caller, context);
  return caller;
}

void Access::CountCall(const grpc::ServerContext& context) const {
  pace_.CountCall(context.peer());
}

void Access::CountRequest(const grpc::ServerContext& context, Right right) const {
  if (right != Right::kNone) {
    pace_.CountRequest(context.peer());
  }
}

std::string AccountOf(const Caller& caller, const grpc::ServerContext& context) {
  return caller.tenant.empty() ? absl::StrCat("the host ", HostOf(context.peer()))
                               : absl::StrCat("tenant \"", caller.tenant, "\"");
}

}  // namespace attention
