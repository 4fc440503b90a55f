// Which server of a ShardedSession holds which page of the sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/shard_server.h"
#include "client/lib/sharded_options.h"
#include "client/lib/sharded_session.h"

namespace attention {

/// A page: a sequence of the session of one server.
struct ShardPage {
  int64_t tokens = 0;
  size_t server = 0;
  int64_t sequence = 0;
  bool is_missing = false;
};

/// The pages of a sequence, and the servers. The tokens of page i begin at i * page_tokens; all
/// pages but the last are full. Between calls of the session every page has tokens. Only one thread
/// at a time may use it.
class ShardPages {
 public:
  explicit ShardPages(const ShardedSessionOptions& options);

  /// Connects to the first server.
  absl::Status Connect() { return servers_.front().Connect(terms_, open_); }

  const v1::OpenSession& open() const { return open_; }
  int64_t page_tokens() const { return page_tokens_; }
  int64_t length() const { return length_; }
  std::span<ShardServer> servers() { return servers_; }
  /// Returns the page that holds the token at `position`, and all that follow.
  std::span<const ShardPage> From(int64_t position) const {
    return std::span(pages_).subspan(position / page_tokens_);
  }

  /// Returns the ranges of the missing pages, or of the others. Neighbours on one server are
  /// joined.
  std::vector<ShardRange> Ranges(bool missing) const;
  /// Returns the servers with an error.
  std::vector<ShardFailure> failures() const;
  /// Returns UNAVAILABLE, which names ranges, servers and errors, if tokens are missing.
  absl::Status CheckWhole() const;

  /// Makes the pages of the next tokens. After an error some may exist, which TakeBack removes.
  /// REQUIRES: no token is missing.
  absl::Status MakeRoom(int64_t new_tokens);
  /// Counts tokens that were added.
  void Grow(int64_t new_tokens);
  /// Removes what a failed call added, on servers that are not lost, and finds out what is missing.
  void TakeBack();

  /// Makes pages on `shard` for missing tokens. The caller gives the result to Replace or to
  /// Forget. INVALID_ARGUMENT unless these are the tokens of whole missing pages; else the server's
  /// error.
  absl::StatusOr<std::vector<ShardPage>> MakeAgain(int64_t first, int64_t count,
                                                   const Shard& shard);
  /// Lets `pages` be those from token `first` on.
  void Replace(int64_t first, const std::vector<ShardPage>& pages);
  /// Removes the pages, and does what TakeBack does.
  void Forget(const std::vector<ShardPage>& pages);

 private:
  absl::Status CheckMissing(int64_t first, int64_t count) const;
  absl::Status MakePage();
  absl::StatusOr<size_t> ServerFor(const Shard& shard);

  const int64_t page_tokens_;
  const v1::OpenSession open_;
  const DecodeStreamOptions terms_;
  std::vector<ShardServer> servers_;
  std::vector<ShardPage> pages_;
  int64_t length_ = 0;
};

}  // namespace attention
