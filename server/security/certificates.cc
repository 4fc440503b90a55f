#include "server/security/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "server/log/log.h"

namespace attention {
namespace {

constexpr size_t kMaxPemBytes = size_t{1} << 20;

using CertificatePointer = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using BioPointer = std::unique_ptr<BIO, decltype(&BIO_free)>;
using ContextPointer = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslPointer = std::unique_ptr<SSL, decltype(&SSL_free)>;

BioPointer OpenText(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

struct PemFile {
  const char* flag;
  std::string path;
  std::string text = {};

  absl::Status Expected(const std::string& what) const {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": expected ", what, ", found none in ", path));
  }
  BioPointer Open() const { return OpenText(text); }
};

absl::StatusOr<PemFile> ReadPem(const char* flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path, kMaxPemBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", std::string(text.status().message())));
  }
  if (text->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": expected a file with PEM text, found none in ", path));
  }
  return PemFile{flag, path, *std::move(text)};
}

// Refuses passwords, which nobody could type: OpenSSL would ask for them on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

// Returns the next certificate; null when there is none that can be read.
CertificatePointer NextCertificate(BIO* bio) {
  return {PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr), X509_free};
}

KeyPointer ReadKey(BIO* bio) {
  return {PEM_read_bio_PrivateKey(bio, nullptr, NoPassword, nullptr), EVP_PKEY_free};
}

// Returns the first certificate. gRPC would drop what follows a part that is broken, so all must be
// whole.
absl::StatusOr<CertificatePointer> FirstCertificate(const PemFile& file) {
  int64_t parts = 0;
  for (const absl::string_view line : absl::StrSplit(file.text, '\n')) {
    parts += absl::StartsWith(line, "-----BEGIN ") && absl::StrContains(line, "CERTIFICATE-----");
  }
  const auto bio = file.Open();
  CertificatePointer first = NextCertificate(bio.get());
  if (first == nullptr) {
    return file.Expected("a certificate (PEM)");
  }
  int64_t certificates = 1;
  while (NextCertificate(bio.get()) != nullptr) {
    ++certificates;
  }
  ERR_clear_error();
  if (certificates != parts) {
    return absl::InvalidArgumentError(absl::StrCat(file.flag, ": expected ", parts,
                                                   " whole certificates (PEM), found ",
                                                   certificates, " in ", file.path));
  }
  return first;
}

absl::StatusOr<KeyPointer> PrivateKey(const PemFile& file) {
  KeyPointer key = ReadKey(file.Open().get());
  if (key == nullptr) {
    return file.Expected("a private key without a password (PEM)");
  }
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm fields = {};
  ASN1_TIME_to_tm(time, &fields);
  return absl::FromTM(fields, absl::UTCTimeZone());
}

// Sets the certificate, the others of its chain, the key, and the authorities, which OpenSSL adds
// to a chain that is not whole. Returns false if it refuses one.
bool SetCertificates(const Certificates& certificates, SSL_CTX& context) {
  const auto authorities = OpenText(certificates.authority());
  while (const CertificatePointer next = NextCertificate(authorities.get())) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), next.get());
  }
  const auto bio = OpenText(certificates.certificate);
  for (bool is_first = true;; is_first = false) {
    const CertificatePointer next = NextCertificate(bio.get());
    if (next == nullptr) {
      ERR_clear_error();  // the end
      const KeyPointer key = ReadKey(OpenText(certificates.key).get());
      return SSL_CTX_use_PrivateKey(&context, key.get()) == 1;
    }
    if ((is_first ? SSL_CTX_use_certificate(&context, next.get())
                  : SSL_CTX_add1_chain_cert(&context, next.get())) != 1) {
      return false;
    }
  }
}

// Takes turns with both ends of a connection until it is made. Returns false if one end refuses it.
bool ConnectInMemory(SSL_CTX& server_context, SSL_CTX& client_context) {
  const SslPointer server(SSL_new(&server_context), SSL_free);
  const SslPointer client(SSL_new(&client_context), SSL_free);
  BIO *server_end = nullptr, *client_end = nullptr;
  if (server == nullptr || client == nullptr ||
      BIO_new_bio_pair(&server_end, 0, &client_end, 0) != 1) {
    return false;
  }
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  constexpr int kMostTurns = 1000;  // far more than the largest chain takes
  for (int turn = 0; turn < kMostTurns; ++turn) {
    bool is_done = true;
    for (SSL* const end : {client.get(), server.get()}) {
      const int result = SSL_do_handshake(end);
      const int error = SSL_get_error(end, result);
      if (result != 1 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        return false;
      }
      is_done = is_done && result == 1;
    }
    if (is_done) {
      return true;
    }
  }
  return false;
}

// Makes a connection with a client that trusts everybody: OpenSSL refuses weak keys, and curves
// that clients do not take, only then. Takes milliseconds.
absl::Status TryToConnect(const CertificateFiles& files, const Certificates& certificates) {
  const ContextPointer server(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const ContextPointer client(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (server == nullptr || client == nullptr) {
    ERR_clear_error();
    return absl::ResourceExhaustedError("no memory to try a TLS connection");
  }
  ERR_clear_error();
  if (SetCertificates(certificates, *server) && ConnectInMemory(*server, *client)) {
    return absl::OkStatus();
  }
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  const absl::Status status = absl::InvalidArgumentError(
      absl::StrCat("--tls-certificate: expected a certificate and a key with which TLS connections "
                   "can be made, found that OpenSSL makes none with those in ",
                   files.certificate, ": ", reason == nullptr ? "it does not say why" : reason));
  ERR_clear_error();
  return status;
}

}  // namespace

absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files) {
  ASSIGN_OR_RETURN(PemFile chain, ReadPem("--tls-certificate", files.certificate));
  ASSIGN_OR_RETURN(PemFile private_key, ReadPem("--tls-key", files.key));
  ASSIGN_OR_RETURN(const CertificatePointer certificate, FirstCertificate(chain));
  ASSIGN_OR_RETURN(const KeyPointer key, PrivateKey(private_key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key: expected the key of the certificate in ", files.certificate,
                     ", found another in ", files.key));
  }
  std::string client_ca;
  if (!files.client_ca.empty()) {
    ASSIGN_OR_RETURN(PemFile authority, ReadPem("--tls-client-ca", files.client_ca));
    RETURN_IF_ERROR(FirstCertificate(authority).status());
    client_ca = std::move(authority.text);
  }
  return Certificates{std::move(chain.text), std::move(private_key.text), std::move(client_ca),
                      TimeOf(X509_get0_notBefore(certificate.get())),
                      TimeOf(X509_get0_notAfter(certificate.get()))};
}

CertificateStore::CertificateStore(const CertificateFiles& files)
    : files_(files),
      watch_({files.certificate, files.key, files.client_ca},
             "the certificate that was read before stays in use") {}

absl::StatusOr<std::shared_ptr<CertificateStore>> CertificateStore::Open(
    const CertificateFiles& files) {
  std::shared_ptr<CertificateStore> store(new CertificateStore(files));
  store->watch_.HasChanged();
  RETURN_IF_ERROR(store->Read());
  return store;
}

absl::Status CertificateStore::Read() {
  ASSIGN_OR_RETURN(Certificates read, ReadCertificates(files_));
  RETURN_IF_ERROR(TryToConnect(files_, read));
  bool is_first = false;
  {
    MutexLock lock(mutex_);
    is_first = latest_ == nullptr;
  }
  const std::string end = absl::FormatTime(absl::RFC3339_sec, read.not_after, absl::UTCTimeZone());
  if (read.not_after <= absl::Now()) {
    Log(LogLevel::kWarning, absl::StrCat("the certificate in ", files_.certificate, " expired at ",
                                         end, ": clients will refuse it"));
  } else if (read.not_before > absl::Now()) {
    Log(LogLevel::kWarning,
        absl::StrCat("the certificate in ", files_.certificate, " is valid only from ",
                     absl::FormatTime(absl::RFC3339_sec, read.not_before, absl::UTCTimeZone()),
                     " on: clients will refuse it until then"));
  } else if (!is_first) {
    Log(LogLevel::kInfo,
        absl::StrCat("read the certificate in ", files_.certificate, " again: valid until ", end));
  }
  auto latest = std::make_shared<const Certificates>(std::move(read));
  MutexLock lock(mutex_);
  latest_ = std::move(latest);
  return absl::OkStatus();
}

std::shared_ptr<const Certificates> CertificateStore::Latest() {
  watch_.Update([this] { return Read(); });
  MutexLock lock(mutex_);
  return latest_;
}

bool CertificateStore::AreFilesValid() {
  Latest();
  return watch_.are_valid();
}

}  // namespace attention
