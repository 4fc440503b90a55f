#include "client/lib/sharded_session.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/merge_answers.h"
#include "client/lib/shard_server.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The maximum number of rows of one step, so that no message grows with the page or the call.
constexpr int64_t kRowsAtATime = 2048;

bool SeesLaterKeys(const v1::AttentionOptions& options) {
  return options.has_causal() && !options.causal();
}

absl::Status FirstError(const std::vector<PageStep>& steps) {
  for (const PageStep& step : steps) {
    RETURN_IF_ERROR(step.answer.status());
  }
  return absl::OkStatus();
}

/// Joins the outputs [n_i, H, Dv] and log-sum-exps [H, n_i] of successive rows.
AttendResult JoinRows(std::vector<AttendResult> parts, int64_t rows) {
  if (parts.size() == 1) {
    return std::move(parts.front());
  }
  Shape shape = parts.front().output.shape();
  shape[0] = rows;
  AttendResult joined;
  joined.output = Tensor(parts.front().output.dtype(), shape);
  Tensor& sums = joined.log_sum_exp.emplace_back(Dtype::kF32, Shape{shape[1], rows});
  char* output = joined.output.as<char>();
  int64_t row = 0;
  for (const AttendResult& part : parts) {
    std::memcpy(output, part.output.data(), part.output.size_bytes());
    output += part.output.size_bytes();
    const int64_t count = part.output.shape()[0];
    for (int64_t head = 0; head < shape[1]; ++head) {
      std::copy_n(part.log_sum_exp[0].as<float>() + head * count, count,
                  sums.as<float>() + head * rows + row);
    }
    row += count;
  }
  return joined;
}

}  // namespace

ShardedSession::ShardedSession(const ShardedSessionOptions& options)
    : page_tokens_(options.page_tokens),
      open_(OpenOf(options)),
      terms_{.connection = {}, .timeout = options.timeout, .lifetime = options.lifetime},
      sinks_(options.options.sinks().begin(), options.options.sinks().end()),
      servers_(options.shards.begin(), options.shards.end()) {}

ShardedSession::~ShardedSession() = default;

absl::StatusOr<std::unique_ptr<ShardedSession>> ShardedSession::Open(
    const ShardedSessionOptions& options) {
  RETURN_IF_ERROR(CheckShardedOptions(options));
  std::unique_ptr<ShardedSession> session(new ShardedSession(options));
  RETURN_IF_ERROR(session->servers_.front().Connect(session->terms_, session->open_));
  return session;
}

absl::StatusOr<AttendResult> ShardedSession::Step(const Tensor& query, const Tensor& key,
                                                  const Tensor& value) {
  RETURN_IF_ERROR(CheckShardKeys(open_.heads(), key, value));
  const int64_t rows = key.shape()[0];
  RETURN_IF_ERROR(CheckShardQuery(open_.heads(), query, rows));
  RETURN_IF_ERROR(MakeRoom(rows));
  // Rows that are not causal attend to later keys of the call too.
  const bool has_all_keys = SeesLaterKeys(open_.options()) && rows > kRowsAtATime;
  if (has_all_keys) {
    if (const absl::Status status = FillPages(pages_, length_, key, value); !status.ok()) {
      return Fail(status);
    }
  }
  std::vector<AttendResult> parts;
  for (int64_t row = 0; row < rows; row += kRowsAtATime) {
    const Tensor part = CopyRows(query, row, std::min(kRowsAtATime, rows - row));
    absl::StatusOr<AttendResult> result = AskPages(part, key, value, {row, has_all_keys});
    if (!result.ok()) {
      return Fail(result.status());
    }
    parts.push_back(*std::move(result));
  }
  Grow(rows);
  return JoinRows(std::move(parts), rows);
}

absl::Status ShardedSession::Append(const Tensor& key, const Tensor& value) {
  RETURN_IF_ERROR(CheckShardKeys(open_.heads(), key, value));
  RETURN_IF_ERROR(MakeRoom(key.shape()[0]));
  const absl::Status status = FillPages(pages_, length_, key, value);
  if (!status.ok()) {
    return Fail(status);
  }
  Grow(key.shape()[0]);
  return absl::OkStatus();
}

absl::Status ShardedSession::AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                                         const Shard& shard) {
  RETURN_IF_ERROR(CheckShardKeys(open_.heads(), key, value));
  RETURN_IF_ERROR(CheckShare(shard, page_tokens_));
  RETURN_IF_ERROR(CheckMissing(first, key.shape()[0]));
  ASSIGN_OR_RETURN(const size_t server, ServerFor(shard));
  std::vector<Page> pages = pages_;
  std::vector<int64_t> made;
  absl::Status status;
  const int64_t end = first + key.shape()[0];
  for (int64_t at = first; at < end && status.ok(); at += page_tokens_) {
    const absl::StatusOr<int64_t> sequence = servers_[server].MakePage();
    status = sequence.status();
    if (status.ok()) {
      made.push_back(*sequence);
      Page& page = pages[at / page_tokens_];
      page = {page.tokens, server, *sequence};
    }
  }
  if (status.ok()) {
    status = FillPages(pages, first, key, value);
  }
  if (status.ok()) {
    pages_ = std::move(pages);
    return status;
  }
  for (const int64_t sequence : made) {
    servers_[server].ReleasePage(sequence).IgnoreError();
  }
  TakeBack();
  return status;
}

std::vector<ShardFailure> ShardedSession::failures() const {
  std::vector<ShardFailure> failures;
  for (const ShardServer& server : servers_) {
    if (!server.status().ok()) {
      failures.push_back({server.name(), server.status()});
    }
  }
  return failures;
}

/// Returns the ranges of the missing pages, or of the others. Neighbours on one server are joined.
std::vector<ShardRange> ShardedSession::Ranges(bool missing) const {
  std::vector<ShardRange> ranges;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const Page& page = pages_[i];
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

/// Checks that no token is missing.
absl::Status ShardedSession::CheckWhole() const {
  const std::vector<ShardRange> lost = missing();
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
absl::Status ShardedSession::CheckMissing(int64_t first, int64_t count) const {
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

/// Makes the pages of the next tokens: all, or none.
absl::Status ShardedSession::MakeRoom(int64_t new_tokens) {
  RETURN_IF_ERROR(CheckWhole());
  while (std::ssize(pages_) * page_tokens_ < length_ + new_tokens) {
    if (const absl::Status status = MakePage(); !status.ok()) {
      return Fail(status);
    }
  }
  return absl::OkStatus();
}

/// Makes the next page, on the first server that can be reached and whose share is not full.
/// Servers with an error come last: each may be back. REQUIRES: no token is missing, so that they
/// hold none.
absl::Status ShardedSession::MakePage() {
  std::vector<size_t> order(servers_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_partition(order, [this](size_t i) { return servers_[i].status().ok(); });
  for (const size_t i : order) {
    ShardServer& server = servers_[i];
    const int64_t held = page_tokens_ * std::ranges::count_if(pages_, [i](const Page& page) {
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
absl::StatusOr<size_t> ShardedSession::ServerFor(const Shard& shard) {
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

/// Asks all pages with rows of a call, of which `query` has copies, and adds the keys of those rows
/// to the pages that they belong to, unless they have all keys of the call.
absl::StatusOr<AttendResult> ShardedSession::AskPages(const Tensor& query, const Tensor& key,
                                                      const Tensor& value, const RowsOfCall& rows) {
  const int64_t begin = length_ + rows.first, end = begin + query.shape()[0];
  const int64_t num_keys = rows.has_all_keys ? length_ + key.shape()[0] : end;
  std::vector<PageStep> steps;
  for (int64_t first = 0; first < num_keys; first += page_tokens_) {
    const Page& page = pages_[first / page_tokens_];
    const int64_t from = std::max(first, begin);
    const int64_t count =
        rows.has_all_keys ? 0 : std::max<int64_t>(0, std::min(first + page_tokens_, end) - from);
    steps.push_back({.server = page.server,
                     .sequence = page.sequence,
                     .query = &query,
                     .query_offset = begin - first,
                     .key = CopyRows(key, from - length_, count),
                     .value = CopyRows(value, from - length_, count)});
  }
  RunPageSteps(servers_, steps);
  RETURN_IF_ERROR(FirstError(steps));
  std::vector<AttendResult> parts;
  for (PageStep& step : steps) {
    parts.push_back(*std::move(step.answer));
  }
  return MergeAnswers(parts, sinks_);
}

/// Adds tokens to `pages`, from position `first` on, without a query.
absl::Status ShardedSession::FillPages(const std::vector<Page>& pages, int64_t first,
                                       const Tensor& key, const Tensor& value) {
  const Tensor no_query(key.dtype(), {0, open_.heads().num_heads(), open_.heads().head_dim()});
  const int64_t rows = key.shape()[0];
  std::vector<PageStep> steps;
  for (int64_t row = 0, count = 0; row < rows; row += count) {
    const int64_t position = first + row;
    const Page& page = pages[position / page_tokens_];
    count = std::min({rows - row, page_tokens_ - position % page_tokens_, kRowsAtATime});
    steps.push_back({.server = page.server,
                     .sequence = page.sequence,
                     .query = &no_query,
                     .key = CopyRows(key, row, count),
                     .value = CopyRows(value, row, count)});
  }
  RunPageSteps(servers_, steps);
  return FirstError(steps);
}

void ShardedSession::Grow(int64_t new_tokens) {
  length_ += new_tokens;
  for (size_t i = 0; i < pages_.size(); ++i) {
    pages_[i].tokens = std::min(page_tokens_, length_ - static_cast<int64_t>(i) * page_tokens_);
  }
}

/// Removes what a failed call added, on servers that are not lost, and finds out what is missing.
void ShardedSession::TakeBack() {
  for (const Page& page : pages_) {
    ShardServer& server = servers_[page.server];
    // A server that cannot do this is lost, or has not added anything.
    if (page.tokens == 0) {
      server.ReleasePage(page.sequence).IgnoreError();
    } else if (page.tokens < page_tokens_ && !page.is_missing) {
      server.TruncatePage(page.sequence, page.tokens).IgnoreError();
    }
  }
  std::erase_if(pages_, [](const Page& page) { return page.tokens == 0; });
  for (Page& page : pages_) {
    page.is_missing = page.is_missing || !servers_[page.server].status().ok();
  }
}

/// Ends a call that failed. Returns what is missing, or else `status`.
absl::Status ShardedSession::Fail(const absl::Status& status) {
  TakeBack();
  const absl::Status whole = CheckWhole();
  return whole.ok() ? status : whole;
}

}  // namespace attention
