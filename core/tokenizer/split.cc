#include "core/tokenizer/split.h"

#include <string>
#include <utility>

namespace attention {

absl::StatusOr<SplitBehavior> ParseSplitBehavior(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::string name, step.StringOr("behavior", "Isolated"));
  constexpr std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) {
      return behavior;
    }
  }
  return step.Wrong("behavior",
                    "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

bool Splitter::Joins(const Span& span) const {
  switch (behavior_) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      return false;
    case SplitBehavior::kMergedWithPrevious:
      return span.is_match && !last_->is_match;
    case SplitBehavior::kMergedWithNext:
      return last_->is_match && !span.is_match;
    case SplitBehavior::kContiguous:
      return last_->is_match == span.is_match;
  }
  return false;
}

absl::Status Splitter::HandOn(const Span& span) {
  const bool is_dropped = behavior_ == SplitBehavior::kRemoved && span.is_match;
  return is_dropped || span.begin == span.end ? absl::OkStatus()
                                              : parts_(piece_.Slice(span.begin, span.end));
}

absl::Status Splitter::Add(const Span& span) {
  if (!last_.has_value()) {
    last_ = span;
  } else if (Joins(span)) {
    last_->end = span.end;
    last_->is_match = span.is_match;
  } else {
    RETURN_IF_ERROR(HandOn(*std::exchange(last_, span)));
  }
  return absl::OkStatus();
}

absl::Status Splitter::Finish() { return last_.has_value() ? HandOn(*last_) : absl::OkStatus(); }

}  // namespace attention
