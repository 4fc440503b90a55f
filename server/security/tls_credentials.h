// gRPC's interface to the certificate store.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/security/certificates.h"

namespace attention {

/// Returns credentials that use the store's latest certificate for each handshake; open connections
/// keep theirs. If there is an authority for clients, a client without a certificate signed by it
/// is refused. The credentials outlive the server.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<CertificateStore> store);

}  // namespace attention
