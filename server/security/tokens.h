// Bearer tokens: the file that lists them, and their callers. No gRPC.
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

/// Callers by the SHA-256 of their tokens, in hexadecimal. A token has 256 random bits, so nobody
/// can guess it from its hash, however fast the hash is to compute. The time to compare hashes does
/// not show how much of a token was right.
using TokenTable = std::map<std::string, TokenEntry>;

/// Reads a file of the form that README.md describes. NOT_FOUND, or INVALID_ARGUMENT which names
/// file, entry and key, what was expected and what was found.
absl::StatusOr<TokenTable> ReadTokenFile(const std::string& path);

/// Keeps the latest valid tokens. Thread-safe.
class TokenStore {
 public:
  /// Returns the errors of ReadTokenFile.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& path);

  /// Returns the caller of a token. UNAUTHENTICATED for a token that is not in the file or has
  /// expired. The file is checked at most once a second; while it is invalid, which is logged once,
  /// the last valid tokens stay in use.
  absl::StatusOr<Caller> Find(const std::string& token);
  /// Returns whether the file is valid now, which is checked as for Find.
  bool IsFileValid();

 private:
  explicit TokenStore(const std::string& path)
      : path_(path), watch_({path}, "the tokens that were read before stay in use") {}
  absl::Status Read();
  std::shared_ptr<const TokenTable> Latest();

  const std::string path_;
  FileWatch watch_;
  Mutex mutex_;  // not held while the file is read
  std::chrono::steady_clock::time_point next_look_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TokenTable> table_ ABSL_GUARDED_BY(mutex_);
};

/// Returns a new token and its entry for the file, as a readable text.
std::string MakeAccessToken(const std::string& tenant);

}  // namespace attention
