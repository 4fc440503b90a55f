// The parts of a streamed answer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor/ragged.h"
#include "server/services/reply/attend_reply.h"

namespace attention {

/// Rows of one head of a table.
struct ScoreRange {
  int64_t table = 0;
  int64_t head = 0;  // the index in the table
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Tokens of one text.
struct TokenRange {
  int64_t sequence = 0;
  int64_t first_token = 0;
  int64_t count = 0;
};

/// The contents of one streamed message: one of these, or none in the last message.
struct ReplyPart {
  std::optional<TokenRange> tokens;
  std::optional<RowRange> rows;
  std::optional<ScoreRange> scores;

  bool empty() const { return !tokens.has_value() && !rows.has_value() && !scores.has_value(); }
};

/// The maximum size of a part besides its elements and texts.
inline constexpr int64_t kPartFieldsBytes = 256;

/// Divides `rows` into row blocks of nearly equal size that fit a streamed message: at most 1 MiB
/// plus one row.
std::vector<RowRange> SplitRows(const AttendReply& reply, const RowRange& rows);
/// Returns the range that follows `last`; the first follows ScoreRange(); null at the end.
std::optional<ScoreRange> NextScores(const AttendReply& reply, const ScoreRange& last);
/// Returns the range of tokens after `last`; absent after the last one.
std::optional<TokenRange> NextTokens(const AttendReply& reply, const TokenRange& last);

}  // namespace attention
