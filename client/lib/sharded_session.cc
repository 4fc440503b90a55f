#include "client/lib/sharded_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/merge_answers.h"
#include "client/lib/shard_server.h"
#include "client/lib/sharded_options.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// The rows of a step that only adds keys, so that no message grows with the page.
constexpr int64_t kRowsAtATime = 2048;

absl::Status CheckRows(const char* name, const Tensor& rows, const Shape& expected) {
  return rows.shape() == expected ? absl::OkStatus()
                                  : WrongShards(name, ": expected ", ShapeText(expected),
                                                ", found ", ShapeText(rows.shape()));
}

Tensor RowsOf(const Tensor& tensor, int64_t first, int64_t count) {
  Shape shape = tensor.shape();
  shape[0] = count;
  Tensor rows(tensor.dtype(), shape);
  if (count > 0) {
    const int64_t row_elements = tensor.num_elements() / tensor.shape()[0];
    std::memcpy(rows.data(), ElementAt(tensor.data(), tensor.dtype(), first * row_elements),
                rows.size_bytes());
  }
  return rows;
}

absl::Status FirstError(const std::vector<PageStep>& steps) {
  for (const PageStep& step : steps) {
    RETURN_IF_ERROR(step.answer.status());
  }
  return absl::OkStatus();
}

std::string TextOf(const ShardRange& range) {
  return absl::StrCat("tokens ", range.first, " to ", range.first + range.count - 1, " of server ",
                      range.server);
}

}  // namespace

class ShardedSession::Impl {
  /// The tokens of page i begin at i * page_tokens; all pages but the last are full.
  struct Page {
    int64_t tokens = 0;
    size_t server = 0;
    int64_t sequence = 0;
    bool is_lost = false;
  };

 public:
  explicit Impl(const ShardedSessionOptions& options)
      : page_tokens_(options.page_tokens),
        open_(OpenOf(options)),
        terms_{.connection = {}, .timeout = options.timeout, .lifetime = options.lifetime},
        sinks_(options.options.sinks().begin(), options.options.sinks().end()) {
    servers_.reserve(options.shards.size());
    for (const Shard& shard : options.shards) {
      servers_.emplace_back(shard);
    }
  }

  absl::Status ConnectFirst() { return servers_.front().Connect(terms_, open_); }

  absl::StatusOr<AttendResult> Step(const Tensor& query, const Tensor& key, const Tensor& value) {
    RETURN_IF_ERROR(CheckStep(&query, key, value));
    const int64_t new_tokens = key.shape()[0];
    RETURN_IF_ERROR(MakeRoom(new_tokens));
    std::vector<PageStep> steps;
    for (size_t page = 0; page < pages_.size(); ++page) {
      steps.push_back(AskPage(page, query, key, value));
    }
    RETURN_IF_ERROR(Run(steps));
    std::vector<AttendResult> parts;
    for (PageStep& step : steps) {
      parts.push_back(*std::move(step.answer));
    }
    absl::StatusOr<AttendResult> merged = MergeAnswers(parts, sinks_);
    if (!merged.ok()) {
      Shrink(steps);
      return merged.status();
    }
    Grow(new_tokens);
    return merged;
  }

  absl::Status Append(const Tensor& key, const Tensor& value) {
    RETURN_IF_ERROR(CheckStep(nullptr, key, value));
    const int64_t new_tokens = key.shape()[0];
    RETURN_IF_ERROR(MakeRoom(new_tokens));
    const Tensor no_query = NoQuery(key.dtype());
    std::vector<PageStep> steps;
    for (int64_t at = length_; at < length_ + new_tokens; at += RowsFrom(at, new_tokens)) {
      const size_t page = at / page_tokens_;
      const int64_t rows = RowsFrom(at, new_tokens);
      steps.push_back(FillPage(page, pages_[page], no_query));
      steps.back().key = RowsOf(key, at - length_, rows);
      steps.back().value = RowsOf(value, at - length_, rows);
    }
    RETURN_IF_ERROR(Run(steps));
    Grow(new_tokens);
    return absl::OkStatus();
  }

  absl::Status AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                           const Shard& shard) {
    RETURN_IF_ERROR(CheckKeys(key, value));
    RETURN_IF_ERROR(CheckShare(shard, page_tokens_));
    RETURN_IF_ERROR(CheckLost(first, key.shape()[0]));
    ASSIGN_OR_RETURN(const size_t server, ServerFor(shard));
    const Tensor no_query = NoQuery(key.dtype());
    std::vector<std::pair<size_t, Page>> fresh;
    std::vector<PageStep> steps;
    for (int64_t at = first; at < first + key.shape()[0];) {
      const size_t index = at / page_tokens_;
      const absl::StatusOr<int64_t> sequence = servers_[server].MakePage();
      RETURN_IF_ERROR(Explain(sequence.status()));
      const Page page = {pages_[index].tokens, server, *sequence};
      fresh.emplace_back(index, page);
      for (int64_t done = 0; done < page.tokens; done += kRowsAtATime) {
        const int64_t rows = std::min(kRowsAtATime, page.tokens - done);
        steps.push_back(FillPage(index, page, no_query));
        steps.back().key = RowsOf(key, at + done - first, rows);
        steps.back().value = RowsOf(value, at + done - first, rows);
      }
      at += page.tokens;
    }
    RunPageSteps(servers_, steps);
    const absl::Status status = FirstError(steps);
    for (const auto& [index, page] : fresh) {
      if (status.ok()) {
        pages_[index] = page;
      } else if (!servers_[server].is_lost()) {
        servers_[server].TruncatePage(page.sequence, 0).IgnoreError();
      }
    }
    return Explain(status);
  }

  int64_t length() const { return length_; }

  /// The ranges of lost pages, or of the others; neighbours of one server are joined.
  std::vector<ShardRange> Ranges(bool lost) const {
    std::vector<ShardRange> ranges;
    for (size_t i = 0; i < pages_.size(); ++i) {
      const Page& page = pages_[i];
      if (page.is_lost != lost || page.tokens == 0) {
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

 private:
  absl::Status CheckKeys(const Tensor& key, const Tensor& value) const {
    const v1::AttentionHeads& heads = open_.heads();
    const int64_t kv_heads = heads.num_kv_heads() != 0 ? heads.num_kv_heads() : heads.num_heads();
    const int64_t width = heads.value_head_dim() != 0 ? heads.value_head_dim() : heads.head_dim();
    const int64_t rows = key.shape().empty() ? 0 : key.shape()[0];
    if (rows < 1) {
      return WrongShards("key: expected at least one token, found ", ShapeText(key.shape()));
    }
    RETURN_IF_ERROR(CheckRows("key", key, {rows, kv_heads, heads.head_dim()}));
    return CheckRows("value", value, {rows, kv_heads, width});
  }

  /// Checks what is added, with its queries or without.
  absl::Status CheckStep(const Tensor* query, const Tensor& key, const Tensor& value) {
    RETURN_IF_ERROR(CheckKeys(key, value));
    const v1::AttentionHeads& heads = open_.heads();
    if (query != nullptr) {
      RETURN_IF_ERROR(
          CheckRows("query", *query, {key.shape()[0], heads.num_heads(), heads.head_dim()}));
    }
    return CheckWhole();
  }

  /// Checks that no token is missing.
  absl::Status CheckWhole() const {
    const std::vector<ShardRange> lost = Ranges(true);
    if (lost.empty()) {
      return absl::OkStatus();
    }
    std::vector<std::string> texts;
    for (const ShardRange& range : lost) {
      const auto server = std::find_if(servers_.begin(), servers_.end(), [&](const ShardServer& s) {
        return s.name() == range.server;
      });
      texts.push_back(absl::StrCat(
          TextOf(range), server->is_lost()
                             ? absl::StrCat(" (", std::string(server->status().message()), ")")
                             : ""));
    }
    return absl::UnavailableError(
        absl::StrCat("lost: ", absl::StrJoin(texts, "; "), "; AppendRange brings them back"));
  }

  absl::Status CheckLost(int64_t first, int64_t count) const {
    int64_t end = first;
    for (size_t i = first / page_tokens_;
         first >= 0 && first % page_tokens_ == 0 && i < pages_.size() && pages_[i].is_lost &&
         end < first + count;
         ++i) {
      end += pages_[i].tokens;
    }
    return end == first + count ? absl::OkStatus()
                                : WrongShards("range: expected the tokens of whole pages of ",
                                              page_tokens_, " that are lost (missing), found ",
                                              count, " tokens from ", first, " on");
  }

  /// The number of rows, from position `at` on, that one step may add without a query.
  int64_t RowsFrom(int64_t at, int64_t new_tokens) const {
    return std::min({length_ + new_tokens - at, page_tokens_ - at % page_tokens_, kRowsAtATime});
  }

  Tensor NoQuery(Dtype dtype) const {
    return {dtype, {0, open_.heads().num_heads(), open_.heads().head_dim()}};
  }

  static PageStep FillPage(size_t index, const Page& page, const Tensor& no_query) {
    PageStep step;
    step.page = index;
    step.server = page.server;
    step.sequence = page.sequence;
    step.query = &no_query;
    return step;
  }

  /// Asks a page with all rows, which begin at `length_`, and adds those of the keys that are its.
  PageStep AskPage(size_t index, const Tensor& query, const Tensor& key,
                   const Tensor& value) const {
    const Page& page = pages_[index];
    const int64_t first = static_cast<int64_t>(index) * page_tokens_;
    const int64_t begin = std::max(first, length_);
    const int64_t end = std::min(first + page_tokens_, length_ + key.shape()[0]);
    const int64_t count = std::max<int64_t>(0, end - begin);
    const int64_t row = count > 0 ? begin - length_ : 0;
    return {.page = index,
            .server = page.server,
            .sequence = page.sequence,
            .query = &query,
            .query_offset = length_ - first,
            .key = RowsOf(key, row, count),
            .value = RowsOf(value, row, count)};
  }

  /// Makes the pages that hold the next tokens.
  absl::Status MakeRoom(int64_t new_tokens) {
    while (std::ssize(pages_) * page_tokens_ < length_ + new_tokens) {
      ASSIGN_OR_RETURN(const size_t server, NextServer());
      RETURN_IF_ERROR(servers_[server].Connect(terms_, open_));
      const absl::StatusOr<int64_t> sequence = servers_[server].MakePage();
      RETURN_IF_ERROR(Explain(sequence.status()));
      pages_.push_back({.server = server, .sequence = *sequence});
    }
    return absl::OkStatus();
  }

  /// The first server that is there and whose share is not full.
  absl::StatusOr<size_t> NextServer() const {
    for (size_t i = 0; i < servers_.size(); ++i) {
      const int64_t held =
          page_tokens_ * std::count_if(pages_.begin(), pages_.end(), [i](const Page& page) {
            return page.server == i && !page.is_lost;
          });
      const int64_t share = servers_[i].shard().max_tokens;
      if (!servers_[i].is_lost() && (share == 0 || held < share)) {
        return i;
      }
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("shards: expected room for token ", std::ssize(pages_) * page_tokens_,
                     ", found all ", servers_.size(), " servers full or lost"));
  }

  absl::StatusOr<size_t> ServerFor(const Shard& shard) {
    size_t index = 0;
    while (index < servers_.size() && servers_[index].name() != shard.connection.server) {
      ++index;
    }
    if (index < servers_.size()) {
      RETURN_IF_ERROR(servers_[index].Connect(terms_, open_));
      return index;
    }
    ShardServer added(shard);
    RETURN_IF_ERROR(added.Connect(terms_, open_));
    servers_.push_back(std::move(added));
    return index;
  }

  /// Runs the steps; on an error no page has grown.
  absl::Status Run(std::vector<PageStep>& steps) {
    RunPageSteps(servers_, steps);
    const absl::Status status = FirstError(steps);
    if (!status.ok()) {
      Shrink(steps);
    }
    return Explain(status);
  }

  /// Takes back what `steps` have added where the server is still there.
  void Shrink(const std::vector<PageStep>& steps) {
    for (const PageStep& step : steps) {
      const Page& page = pages_[step.page];
      if (step.key.num_elements() > 0 && !servers_[step.server].is_lost()) {
        // A server that cannot do that is lost, or has not added anything.
        servers_[step.server].TruncatePage(page.sequence, page.tokens).IgnoreError();
      }
    }
  }

  /// Finds out what was lost. Returns OK if `status` is, else what is lost, or else `status`.
  absl::Status Explain(const absl::Status& status) {
    for (Page& page : pages_) {
      page.is_lost = page.is_lost || servers_[page.server].is_lost();
    }
    // Of a page without tokens nothing is lost: it is made anew, and those behind it.
    const auto gone = std::find_if(pages_.begin(), pages_.end(), [](const Page& page) {
      return page.is_lost && page.tokens == 0;
    });
    pages_.erase(gone, pages_.end());
    const absl::Status whole = status.ok() ? absl::OkStatus() : CheckWhole();
    return whole.ok() ? status : whole;
  }

  void Grow(int64_t new_tokens) {
    length_ += new_tokens;
    for (size_t i = 0; i < pages_.size(); ++i) {
      pages_[i].tokens = std::min(page_tokens_, length_ - static_cast<int64_t>(i) * page_tokens_);
    }
  }

  const int64_t page_tokens_;
  const v1::OpenSession open_;
  const DecodeStreamOptions terms_;
  const std::vector<float> sinks_;
  std::vector<ShardServer> servers_;
  std::vector<Page> pages_;
  int64_t length_ = 0;
};

ShardedSession::ShardedSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardedSession::~ShardedSession() = default;

absl::StatusOr<std::unique_ptr<ShardedSession>> ShardedSession::Open(
    const ShardedSessionOptions& options) {
  RETURN_IF_ERROR(CheckShardedOptions(options));
  auto impl = std::make_unique<Impl>(options);
  RETURN_IF_ERROR(impl->ConnectFirst());
  return std::unique_ptr<ShardedSession>(new ShardedSession(std::move(impl)));
}

absl::StatusOr<AttendResult> ShardedSession::Step(const Tensor& query, const Tensor& key,
                                                  const Tensor& value) {
  return impl_->Step(query, key, value);
}

absl::Status ShardedSession::Append(const Tensor& key, const Tensor& value) {
  return impl_->Append(key, value);
}

absl::Status ShardedSession::AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                                         const Shard& shard) {
  return impl_->AppendRange(first, key, value, shard);
}

int64_t ShardedSession::length() const { return impl_->length(); }
std::vector<ShardRange> ShardedSession::held() const { return impl_->Ranges(false); }
std::vector<ShardRange> ShardedSession::missing() const { return impl_->Ranges(true); }

}  // namespace attention
