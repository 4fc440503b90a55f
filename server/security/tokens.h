// Bearer tokens: the file that lists them, and whom each stands for. No gRPC.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/runtime/mutex.h"
#include "server/security/caller.h"
#include "server/security/file_watch.h"

namespace attention {

struct TokenEntry {
  Caller caller;
  absl::Time expires = absl::InfiniteFuture();
};

/// By the SHA-256 of a token, in hexadecimal. A token is 256 random bits, which nobody guesses from
/// a hash, however fast it is to compute; and who compares hashes tells nobody by its time how much
/// of a token was right.
using TokenTable = std::map<std::string, TokenEntry>;

/// A file of the form that README.md describes. NOT_FOUND, or INVALID_ARGUMENT which names file,
/// entry and key, what was expected and what was found.
absl::StatusOr<TokenTable> ReadTokenFile(const std::string& path);

/// Thread-safe.
class TokenStore {
 public:
  /// Errors of ReadTokenFile.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& path);

  /// UNAUTHENTICATED for a token that is not in the file or has expired. The file is looked at
  /// again at most once a second; while what it holds is wrong, which the log says once, what there
  /// was before stays.
  absl::StatusOr<Caller> Find(const std::string& token);

 private:
  explicit TokenStore(const std::string& path) : path_(path), watch_({path}) {}
  std::shared_ptr<const TokenTable> Latest();

  const std::string path_;
  Mutex mutex_;
  FileWatch watch_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point next_look_ ABSL_GUARDED_BY(mutex_);
  /// Of the last look, which the log has.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TokenTable> table_ ABSL_GUARDED_BY(mutex_);
};

/// A new token and its entry of the file, to read.
std::string MakeToken(const std::string& tenant);

}  // namespace attention
