#include "server/services/reply/reply_parts.h"

#include <algorithm>
#include <string>

#include "core/runtime/round_up.h"

namespace attention {
namespace {

// Returns the number of rows with which a message has at most kRowBlockBytes and one row.
int64_t RowsPerBlock(size_t row_bytes) {
  const auto bytes = static_cast<int64_t>(std::max<size_t>(1, row_bytes));
  return (kRowBlockBytes + bytes - kPartFieldsBytes) / bytes;
}

// The memory of a token in a message besides its text: an id, tags and a length.
constexpr size_t kTokenBytes = 16;

}  // namespace

std::vector<RowRange> SplitRows(const AttendReply& reply, const RowRange& rows) {
  std::vector<RowRange> blocks;
  const int64_t most = RowsPerBlock(reply.RowBytes());
  const int64_t count = CeilDiv(rows.rows, most);
  const int64_t step = count == 0 ? 1 : CeilDiv(rows.rows, count);  // of nearly equal blocks
  for (int64_t done = 0; done < rows.rows; done += step) {
    blocks.push_back({rows.sequence, rows.first_row + done, std::min(step, rows.rows - done)});
  }
  return blocks;
}

std::optional<ScoreRange> NextScores(const AttendReply& reply, const ScoreRange& last) {
  ScoreRange next = last;
  next.first_row += last.rows;
  next.rows = 0;
  while (next.table < std::ssize(reply.tables())) {
    const ScoreTable& table = reply.tables()[next.table];
    if (next.head == table.num_heads || table.rows == 0) {
      next = {.table = next.table + 1};
    } else if (next.first_row == table.rows) {
      next = {.table = next.table, .head = next.head + 1};
    } else {
      const int64_t elements =
          table.kind == ScoreKind::kTopWeights ? 2 * table.row_elements : table.row_elements;
      next.rows =
          std::min(RowsPerBlock(elements * kTableElementBytes), table.rows - next.first_row);
      return next;
    }
  }
  return std::nullopt;
}

std::optional<TokenRange> NextTokens(const AttendReply& reply, const TokenRange& last) {
  TokenRange next = {last.sequence, last.first_token + last.count, 0};
  while (next.sequence < std::ssize(reply.texts())) {
    const std::vector<std::string>& tokens = reply.texts()[next.sequence].tokens;
    size_t bytes = 0;
    for (int64_t i = next.first_token; i < std::ssize(tokens); ++i) {
      bytes += tokens[i].size() + kTokenBytes;
      if (bytes > kRowBlockBytes - kPartFieldsBytes && next.count > 0) {
        break;
      }
      ++next.count;
    }
    if (next.count > 0) {
      return next;
    }
    next = {.sequence = next.sequence + 1};
  }
  return std::nullopt;
}

}  // namespace attention
