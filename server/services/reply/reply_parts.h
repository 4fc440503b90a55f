// The parts that an answer is streamed in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor/ragged.h"
#include "server/services/reply/attend_reply.h"

namespace attention {

/// Some rows of one head of a table.
struct ScoreRange {
  int64_t table = 0;
  int64_t head = 0;  // index in the table
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Some tokens of one text.
struct TokenRange {
  int64_t sequence = 0;
  int64_t first_token = 0;
  int64_t count = 0;
};

/// What one streamed message holds: one of these, or, at the end, none.
struct ReplyPart {
  std::optional<TokenRange> tokens;
  std::optional<RowRange> rows;
  std::optional<ScoreRange> scores;

  bool empty() const { return !tokens.has_value() && !rows.has_value() && !scores.has_value(); }
};

/// `rows` in pieces that fit a streamed message: at most 1 MiB, or one row.
std::vector<RowRange> SplitRows(const AttendReply& reply, const RowRange& rows);
/// The piece that follows `last`; the first is the one that follows ScoreRange(); null at the end.
std::optional<ScoreRange> NextScores(const AttendReply& reply, const ScoreRange& last);
/// The same of tokens.
std::optional<TokenRange> NextTokens(const AttendReply& reply, const TokenRange& last);

}  // namespace attention
