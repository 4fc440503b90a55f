#include "client/lib/shard_pages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/status_macros.h"

namespace attention {

ShardPages::ShardPages(const ShardedSessionOptions& options)
    : page_tokens_(options.page_tokens),
      open_(OpenOf(options)),
      terms_{.connection = {}, .timeout = options.timeout, .lifetime = options.lifetime},
      servers_(options.shards.begin(), options.shards.end()) {}

std::vector<ShardFailure> ShardPages::failures() const {
  std::vector<ShardFailure> failures;
  for (const ShardServer& server : servers_) {
    if (!server.status().ok()) {
      failures.push_back({server.name(), server.status()});
    }
  }
  return failures;
}

std::vector<ShardRange> ShardPages::Ranges(bool missing) const {
  std::vector<ShardRange> ranges;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const ShardPage& page = pages_[i];
    if (page.is_missing != missing) {
      continue;
    }
    const int64_t first = static_cast<int64_t>(i) * page_tokens_;
    const std::string& name = servers_[page.server].name();
    if (!ranges.empty() && ranges.back().server == name &&
        ranges.back().first + ranges.back().count == first) {
      ranges.back().count += page.tokens;
    } else {
      ranges.push_back({first, page.tokens, name});
    }
  }
  return ranges;
}

absl::Status ShardPages::CheckWhole() const {
  const std::vector<ShardRange> lost = Ranges(/*missing=*/true);
  if (lost.empty()) {
    return absl::OkStatus();
  }
  const auto text = [this](std::string* out, const ShardRange& range) {
    absl::StrAppend(out, "tokens ", range.first, " to ", range.first + range.count - 1,
                    " of server ", range.server);
    for (const ShardFailure& failure : failures()) {
      if (failure.server == range.server) {
        absl::StrAppend(out, " (", std::string(failure.status.message()), ")");
      }
    }
  };
  return absl::UnavailableError(
      absl::StrCat("lost: ", absl::StrJoin(lost, "; ", text), "; AppendRange brings them back"));
}

/// Checks that the tokens are those of whole missing pages.
absl::Status ShardPages::CheckMissing(int64_t first, int64_t count) const {
  int64_t end = first;
  for (size_t i = first / page_tokens_;
       first >= 0 && first % page_tokens_ == 0 && i < pages_.size() && pages_[i].is_missing &&
       end < first + count;
       ++i) {
    end += pages_[i].tokens;
  }
  return end == first + count
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "range: expected the tokens of whole pages of ", page_tokens_,
                   " that are lost (missing), found ", count, " tokens from ", first, " on"));
}

absl::Status ShardPages::MakeRoom(int64_t new_tokens) {
  while (std::ssize(pages_) * page_tokens_ < length_ + new_tokens) {
    RETURN_IF_ERROR(MakePage());
  }
  return absl::OkStatus();
}

/// Makes the next page, on the first server that can be reached and whose share is not full.
/// Servers with an error come last: each may be back. REQUIRES: no token is missing, so that they
/// hold none.
absl::Status ShardPages::MakePage() {
  std::vector<size_t> order(servers_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_partition(order, [this](size_t i) { return servers_[i].status().ok(); });
  for (const size_t i : order) {
    ShardServer& server = servers_[i];
    const int64_t held = page_tokens_ * std::ranges::count_if(pages_, [i](const ShardPage& page) {
                           return page.server == i && !page.is_missing;
                         });
    const int64_t share = server.shard().max_tokens;
    if ((share != 0 && held >= share) || !server.Connect(terms_, open_).ok()) {
      continue;
    }
    const absl::StatusOr<int64_t> sequence = server.MakePage();
    if (sequence.ok()) {
      pages_.push_back({.server = i, .sequence = *sequence});
      return absl::OkStatus();
    }
    if (server.status().ok() || held > 0) {
      return sequence.status();
    }
  }
  std::string text =
      absl::StrCat("shards: expected room for token ", std::ssize(pages_) * page_tokens_,
                   ", found all ", servers_.size(), " servers full or lost");
  for (const ShardFailure& failure : failures()) {
    absl::StrAppend(&text, "; ", failure.server, ": ", std::string(failure.status.message()));
  }
  return absl::ResourceExhaustedError(text);
}

/// Returns the index of a connected server. The options of `shard` replace those that it had.
absl::StatusOr<size_t> ShardPages::ServerFor(const Shard& shard) {
  const auto found = std::ranges::find(servers_, shard.connection.server, &ShardServer::name);
  if (found != servers_.end()) {
    found->set_shard(shard);
    RETURN_IF_ERROR(found->Connect(terms_, open_));
    return found - servers_.begin();
  }
  ShardServer added(shard);
  RETURN_IF_ERROR(added.Connect(terms_, open_));
  servers_.push_back(std::move(added));
  return servers_.size() - 1;
}

absl::StatusOr<std::vector<ShardPage>> ShardPages::MakeAgain(int64_t first, int64_t count,
                                                             const Shard& shard) {
  RETURN_IF_ERROR(CheckMissing(first, count));
  ASSIGN_OR_RETURN(const size_t server, ServerFor(shard));
  std::vector<ShardPage> pages;
  pages.reserve(count / page_tokens_ + 1);  // so that no page is made that this cannot hold
  for (int64_t at = first; at < first + count; at += page_tokens_) {
    const absl::StatusOr<int64_t> sequence = servers_[server].MakePage();
    if (!sequence.ok()) {
      Forget(pages);
      return sequence.status();
    }
    pages.push_back({pages_[at / page_tokens_].tokens, server, *sequence});
  }
  return pages;
}

void ShardPages::Replace(int64_t first, const std::vector<ShardPage>& pages) {
  std::ranges::copy(pages, pages_.begin() + first / page_tokens_);
}

void ShardPages::Forget(const std::vector<ShardPage>& pages) {
  for (const ShardPage& page : pages) {
    servers_[page.server].ReleasePage(page.sequence).IgnoreError();
  }
  TakeBack();
}

void ShardPages::Grow(int64_t new_tokens) {
  length_ += new_tokens;
  for (size_t i = 0; i < pages_.size(); ++i) {
    pages_[i].tokens = std::min(page_tokens_, length_ - static_cast<int64_t>(i) * page_tokens_);
  }
}

void ShardPages::TakeBack() {
  for (ShardPage& page : pages_) {
    ShardServer& server = servers_[page.server];
    if (page.tokens == 0) {
      server.ReleasePage(page.sequence).IgnoreError();
    } else if (page.tokens < page_tokens_ && !page.is_missing) {
      // A server that refuses may hold a token more than is counted: the page is given up.
      page.is_missing = !server.TruncatePage(page.sequence, page.tokens).ok();
      if (page.is_missing) {
        server.ReleasePage(page.sequence).IgnoreError();
      }
    }
  }
  std::erase_if(pages_, [](const ShardPage& page) { return page.tokens == 0; });
  for (ShardPage& page : pages_) {
    page.is_missing = page.is_missing || !servers_[page.server].status().ok();
  }
}

}  // namespace attention
