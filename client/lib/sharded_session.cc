#include "client/lib/sharded_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/lib/merge_answers.h"
#include "client/lib/shard_pages.h"
#include "client/lib/shard_server.h"
#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The maximum number of rows of one step, so that no message grows with the page or the call.
constexpr int64_t kMostRows = 2048;
/// The bytes of a step's message besides its rows.
constexpr int64_t kEnvelopeBytes = 4096;

constexpr char kWork[] = "the sharded session";

bool AttendsToLaterKeys(const v1::AttentionOptions& options) {
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
    : sinks_(options.options.sinks().begin(), options.options.sinks().end()),
      pages_(std::make_unique<ShardPages>(options)) {}

ShardedSession::~ShardedSession() = default;

absl::StatusOr<std::unique_ptr<ShardedSession>> ShardedSession::Open(
    const ShardedSessionOptions& options) {
  RETURN_IF_ERROR(CheckShardedOptions(options));
  std::unique_ptr<ShardedSession> session(new ShardedSession(options));
  RETURN_IF_ERROR(session->pages_->Connect());
  return session;
}

int64_t ShardedSession::length() const { return pages_->length(); }

std::vector<ShardRange> ShardedSession::held() const { return pages_->Ranges(/*missing=*/false); }

std::vector<ShardRange> ShardedSession::missing() const { return pages_->Ranges(/*missing=*/true); }

std::vector<ShardFailure> ShardedSession::failures() const { return pages_->failures(); }

absl::StatusOr<AttendResult> ShardedSession::Step(const Tensor& query, const Tensor& key,
                                                  const Tensor& value) {
  const v1::OpenSession& open = pages_->open();
  RETURN_IF_ERROR(CheckShardKeys(open.heads(), key, value));
  const int64_t rows = key.shape()[0];
  RETURN_IF_ERROR(CheckShardQuery(open.heads(), query, rows));
  RETURN_IF_ERROR(MakeRoom(rows));
  absl::StatusOr<AttendResult> answer = Contain(kWork, [&] { return Ask(query, key, value); });
  if (!answer.ok()) {
    return Fail(answer.status());
  }
  pages_->Grow(rows);
  return answer;
}

/// Returns how many rows a step has at most: so many that each server takes its message.
int64_t ShardedSession::RowsAtATime(const Tensor& query, const Tensor& key,
                                    const Tensor& value) const {
  int64_t row_bytes = 0;
  for (const Tensor* const tensor : {&query, &key, &value}) {
    const int64_t rows = tensor->shape()[0];
    row_bytes += rows == 0 ? 0 : static_cast<int64_t>(tensor->size_bytes()) / rows;
  }
  int64_t most = kMostRows;
  for (const ShardServer& server : pages_->servers()) {
    if (const int64_t limit = server.max_message_bytes(); limit > 0) {
      most = std::min(most, (limit - kEnvelopeBytes) / row_bytes);
    }
  }
  return std::max<int64_t>(most, 1);
}

/// Asks all pages for the rows of a call, part by part, and adds its keys.
absl::StatusOr<AttendResult> ShardedSession::Ask(const Tensor& query, const Tensor& key,
                                                 const Tensor& value) {
  const int64_t rows = key.shape()[0], rows_at_a_time = RowsAtATime(query, key, value);
  // Rows that are not causal attend to later keys of the call too.
  const bool has_all_keys = AttendsToLaterKeys(pages_->open().options()) && rows > rows_at_a_time;
  if (has_all_keys) {
    RETURN_IF_ERROR(FillNext(key, value));
  }
  std::vector<AttendResult> parts;
  for (int64_t row = 0; row < rows; row += rows_at_a_time) {
    const Tensor part = CopyRows(query, row, std::min(rows_at_a_time, rows - row));
    ASSIGN_OR_RETURN(parts.emplace_back(), AskPages(part, key, value, {row, has_all_keys}));
  }
  return JoinRows(std::move(parts), rows);
}

absl::Status ShardedSession::Append(const Tensor& key, const Tensor& value) {
  RETURN_IF_ERROR(CheckShardKeys(pages_->open().heads(), key, value));
  RETURN_IF_ERROR(MakeRoom(key.shape()[0]));
  const absl::Status status = Contain(kWork, [&] { return FillNext(key, value); });
  if (!status.ok()) {
    return Fail(status);
  }
  pages_->Grow(key.shape()[0]);
  return absl::OkStatus();
}

absl::Status ShardedSession::AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                                         const Shard& shard) {
  RETURN_IF_ERROR(CheckShardKeys(pages_->open().heads(), key, value));
  RETURN_IF_ERROR(CheckShare(shard, pages_->page_tokens()));
  ASSIGN_OR_RETURN(const std::vector<ShardPage> pages,
                   pages_->MakeAgain(first, key.shape()[0], shard));
  const absl::Status status = Contain(kWork, [&] { return FillPages(pages, first, key, value); });
  if (status.ok()) {
    pages_->Replace(first, pages);
  } else {
    pages_->Forget(pages);
  }
  return status;
}

/// Makes the pages of the next tokens: all, or none.
absl::Status ShardedSession::MakeRoom(int64_t new_tokens) {
  RETURN_IF_ERROR(pages_->CheckWhole());
  const absl::Status status = Contain(kWork, [&] { return pages_->MakeRoom(new_tokens); });
  return status.ok() ? status : Fail(status);
}

/// Asks all pages with rows of a call, of which `query` has copies, and adds the keys of those rows
/// to the pages that they belong to, unless they have all keys of the call.
absl::StatusOr<AttendResult> ShardedSession::AskPages(const Tensor& query, const Tensor& key,
                                                      const Tensor& value, const RowsOfCall& rows) {
  const int64_t length = pages_->length();
  const int64_t begin = length + rows.first, end = begin + query.shape()[0];
  const int64_t num_keys = rows.has_all_keys ? length + key.shape()[0] : end;
  int64_t first = 0;
  std::vector<PageStep> steps;
  for (const ShardPage& page : pages_->From(0)) {
    if (first >= num_keys) {
      break;
    }
    const int64_t from = std::max(first, begin);
    const int64_t page_end = first + pages_->page_tokens();
    const int64_t count =
        rows.has_all_keys ? 0 : std::max<int64_t>(0, std::min(page_end, end) - from);
    steps.push_back({.server = page.server,
                     .sequence = page.sequence,
                     .query = &query,
                     .query_offset = begin - first,
                     .key = CopyRows(key, from - length, count),
                     .value = CopyRows(value, from - length, count)});
    first = page_end;
  }
  RunPageSteps(pages_->servers(), steps);
  RETURN_IF_ERROR(FirstError(steps));
  std::vector<AttendResult> parts;
  for (PageStep& step : steps) {
    parts.push_back(*std::move(step.answer));
  }
  return MergeAnswers(parts, sinks_);
}

/// Adds the next tokens without a query.
absl::Status ShardedSession::FillNext(const Tensor& key, const Tensor& value) {
  const int64_t length = pages_->length();
  return FillPages(pages_->From(length), length, key, value);
}

/// Adds tokens without a query, from position `first` on. `pages` are those that hold these tokens.
absl::Status ShardedSession::FillPages(std::span<const ShardPage> pages, int64_t first,
                                       const Tensor& key, const Tensor& value) {
  const v1::AttentionHeads& heads = pages_->open().heads();
  const Tensor no_query(key.dtype(), {0, heads.num_heads(), heads.head_dim()});
  const int64_t page_tokens = pages_->page_tokens();
  const int64_t rows = key.shape()[0], rows_at_a_time = RowsAtATime(no_query, key, value);
  std::vector<PageStep> steps;
  for (int64_t row = 0, count = 0; row < rows; row += count) {
    const int64_t position = first + row;
    const ShardPage& page = pages[position / page_tokens - first / page_tokens];
    count = std::min({rows - row, page_tokens - position % page_tokens, rows_at_a_time});
    steps.push_back({.server = page.server,
                     .sequence = page.sequence,
                     .query = &no_query,
                     .key = CopyRows(key, row, count),
                     .value = CopyRows(value, row, count)});
  }
  RunPageSteps(pages_->servers(), steps);
  return FirstError(steps);
}

/// Ends a call that failed. Returns what is missing, or else `status`.
absl::Status ShardedSession::Fail(const absl::Status& status) {
  pages_->TakeBack();
  const absl::Status whole = pages_->CheckWhole();
  return whole.ok() ? status : whole;
}

}  // namespace attention
