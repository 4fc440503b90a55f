#include "server/security/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <deque>
#include <string>
#include <type_traits>
#include <utility>

#include "server/log/log.h"

namespace attention {
namespace {

// The state of one address, since gRPC keeps one configuration per address.
struct Address {
  CertificateStore& store;
  std::shared_ptr<const Certificates> in_use = nullptr;
};

// Returns whether `config` was made of certificates that have changed.
bool FetchChanged(Address& address, grpc_ssl_server_certificate_config** config) {
  std::shared_ptr<const Certificates> latest = address.store.Latest();
  if (latest == address.in_use) {
    return false;
  }
  const Certificates& certificates = *latest;
  const grpc_ssl_pem_key_cert_pair pair = {certificates.key.c_str(),
                                           certificates.certificate.c_str()};
  *config = grpc_ssl_server_certificate_config_create(certificates.authority().c_str(), &pair, 1);
  address.in_use = std::move(latest);
  return true;
}

// Called before each handshake, one at a time per address. After a failure the handshake uses the
// last configuration.
grpc_ssl_certificate_config_reload_status Fetch(void* user_data,
                                                grpc_ssl_server_certificate_config** config) {
  bool has_changed = false;
  if (!RunLogged("reading the certificates",
                 [&] { has_changed = FetchChanged(*static_cast<Address*>(user_data), config); })) {
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
  }
  return has_changed ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                     : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

// A class of gRPC 1.51 that is an interface; of later releases, one that holds credentials of the C
// library, here none.
template <typename Credentials>
class WithoutCredentials : public Credentials {
 protected:
  WithoutCredentials()
    requires std::is_abstract_v<Credentials>
  = default;
  WithoutCredentials()
    requires(!std::is_abstract_v<Credentials>)
      : Credentials(nullptr) {}
};

// The C library has credentials that fetch their certificate, but the C++ library has no class for
// them.
class ReloadingCredentials final : public WithoutCredentials<grpc::ServerCredentials> {
 public:
  explicit ReloadingCredentials(std::shared_ptr<CertificateStore> store)
      : store_(std::move(store)) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    Address& state = addresses_.emplace_back(Address{*store_});
    grpc_ssl_server_credentials_options* const options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            store_->wants_client_certificates()
                ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &Fetch, &state);
    grpc_server_credentials* const credentials =
        grpc_ssl_server_credentials_create_with_options(options);
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  const std::shared_ptr<CertificateStore> store_;
  std::deque<Address> addresses_;  // stay where they are
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<CertificateStore> store) {
  return std::make_shared<ReloadingCredentials>(std::move(store));
}

}  // namespace attention
