// The server's certificate and key, read again when their files change. No gRPC.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/runtime/mutex.h"
#include "server/security/file_watch.h"

namespace attention {

/// Paths, in PEM form.
struct CertificateFiles {
  std::string certificate;
  std::string key;
  /// Who signs the clients' certificates. Empty: clients need none.
  std::string client_ca = {};
};

/// Texts in PEM form that belong together.
struct Certificates {
  std::string certificate;
  std::string key;
  std::string client_ca;
  /// When the certificate expires.
  absl::Time not_after;
};

/// INVALID_ARGUMENT names the flag, the file and what is wrong: no PEM text, a key that needs a
/// password, a key that is not the certificate's.
absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files);

/// Thread-safe.
class CertificateStore {
 public:
  /// Errors of ReadCertificates. An expired certificate is warned of in the log, and used.
  static absl::StatusOr<std::shared_ptr<CertificateStore>> Open(const CertificateFiles& files);

  /// Looks at the files, and reads them when they have changed. While what they hold is wrong or
  /// does not belong together, which the log says once, what there was before stays.
  std::shared_ptr<const Certificates> Latest();

  bool wants_client_certificates() const { return !files_.client_ca.empty(); }

 private:
  explicit CertificateStore(const CertificateFiles& files);
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CertificateFiles files_;
  Mutex mutex_;
  FileWatch watch_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Certificates> latest_ ABSL_GUARDED_BY(mutex_);
  /// Of the last look, which the log has.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
