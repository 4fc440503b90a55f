// Splits a piece at the matches of a pattern.
#pragma once

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/piece.h"

namespace attention {

enum class SplitBehavior {
  kRemoved,             // a match is dropped
  kIsolated,            // a match is a piece of its own
  kMergedWithPrevious,  // a match ends the piece before it; one right after a match stands alone
  kMergedWithNext,      // a match begins the piece after it; one right before a match stands alone
  kContiguous,          // matches that touch are one piece
};

absl::StatusOr<SplitBehavior> ParseSplitBehavior(const JsonObject& step);

/// A function that receives pieces one by one. An error that it returns ends the work.
using PieceSink = absl::FunctionRef<absl::Status(Piece piece)>;

/// Joins the spans of a piece and passes on its parts that are not empty. It borrows its arguments.
class Splitter {
 public:
  Splitter(const Piece& piece, SplitBehavior behavior, PieceSink parts)
      : piece_(piece), behavior_(behavior), parts_(parts) {}

  /// Adds the next span. Spans come in order, without gaps.
  absl::Status Add(const Span& span);
  /// Passes on the last part. Call it after the last span.
  absl::Status Finish();

 private:
  bool Joins(const Span& span) const;
  absl::Status HandOn(const Span& span);

  const Piece& piece_;
  const SplitBehavior behavior_;
  const PieceSink parts_;
  // The last span, which may join the next one and was not passed on yet. It is a match if its last
  // part is a match.
  std::optional<Span> last_;
};

/// Splits the piece by `behavior` at the spans that find(SpanSink) finds in its text, and passes on
/// the parts.
template <typename Find>
absl::Status Split(const Piece& piece, SplitBehavior behavior, PieceSink parts, Find find) {
  Splitter splitter(piece, behavior, parts);
  const auto add = [&splitter](const Span& span) { return splitter.Add(span); };
  RETURN_IF_ERROR(find(SpanSink(add)));
  return splitter.Finish();
}

}  // namespace attention
