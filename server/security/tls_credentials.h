// The certificate store as gRPC asks for it.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/security/certificates.h"

namespace attention {

/// Each connection's handshake has the store's latest; connections that are open keep theirs. With
/// the clients' authority a client without a certificate signed by it is refused. The credentials
/// outlive the server.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<CertificateStore> store);

}  // namespace attention
