// The server's certificate and key, read again when their files change. No gRPC.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/runtime/mutex.h"
#include "server/security/file_watch.h"

namespace attention {

/// The paths of files in PEM form.
struct CertificateFiles {
  std::string certificate;
  std::string key;
  /// The authorities that sign the certificates of clients. Empty: clients need no certificate.
  std::string client_ca = {};
};

/// Texts in PEM form that belong together.
struct Certificates {
  std::string certificate;
  std::string key;
  std::string client_ca;
  /// The times from which and until which the certificate is valid.
  absl::Time not_before, not_after;

  /// Returns the authorities that gRPC is given: it needs one even if clients need no certificate.
  const std::string& authority() const { return client_ca.empty() ? certificate : client_ca; }
};

/// Reads and checks the files. INVALID_ARGUMENT names the flag, the file and the problem: no PEM
/// text, a key that needs a password, a key of another certificate.
absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files);

/// Keeps the latest valid certificates. Thread-safe.
class CertificateStore {
 public:
  /// Makes a TLS connection in memory with the certificates. Returns the errors of
  /// ReadCertificates, and INVALID_ARGUMENT for a key that OpenSSL or its clients refuse. An
  /// expired certificate is used, with a warning in the log.
  static absl::StatusOr<std::shared_ptr<CertificateStore>> Open(const CertificateFiles& files);

  /// Checks the files, and reads them when they have changed. While they are invalid or do not
  /// belong together, which is logged once, the last valid ones stay in use.
  std::shared_ptr<const Certificates> Latest();
  /// Checks the files as Latest does, and returns whether they are valid now.
  bool AreFilesValid();

  bool wants_client_certificates() const { return !files_.client_ca.empty(); }

 private:
  explicit CertificateStore(const CertificateFiles& files);
  absl::Status Read();

  const CertificateFiles files_;
  FileWatch watch_;
  Mutex mutex_;  // not held while the files are read
  std::shared_ptr<const Certificates> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
