#include "client/cli/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/stop_texts.h"
#include "core/runtime/status_macros.h"

namespace attention {

std::string Generated::Timing() const {
  const int64_t others = std::max<int64_t>(0, std::ssize(ids) - 1);
  std::string line =
      absl::StrCat(ids.size(), " tokens after ", prompt_tokens, ", ended by ", finish);
  if (!ids.empty()) {
    absl::StrAppendFormat(&line, "; first after %.1f ms", absl::ToDoubleMilliseconds(first_after));
  }
  if (others > 0) {
    const double each_ms = absl::ToDoubleMilliseconds(others_took) / static_cast<double>(others);
    absl::StrAppendFormat(&line, ", then %.2f ms each (%.1f/s)", each_ms, 1e3 / each_ms);
  }
  return line;
}

absl::StatusOr<Generation::Token> Generation::Step(decltype(AttendRequest::input) input) {
  ASSIGN_OR_RETURN(const StepResult result,
                   stream_.Step({.input = std::move(input), .top_logits = sampler_.num_logits()}));
  length_ = result.session.length;
  if (!result.top_logits.has_value() || result.top_logits->ids().empty()) {
    return absl::InternalError("malformed answer: a step without the logits that were asked for");
  }
  const v1::TopLogits& top = *result.top_logits;
  const int chosen = sampler_.Choose(top);
  return Token{top.ids(chosen), chosen < top.tokens_size() ? top.tokens(chosen) : ""};
}

absl::StatusOr<Generated> Generation::Continue(decltype(AttendRequest::input) prompt,
                                               const OnToken& on_token) {
  if (unfed_.has_value()) {
    RETURN_IF_ERROR(stream_.Step({.input = TokenIdsInput{{*unfed_}}, .no_output = true}).status());
    unfed_.reset();
    ++length_;
  }
  Generated generated;
  StopTexts stops(options_.stop_texts);
  const int64_t before = length_;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(Token token, Step(std::move(prompt)));
  generated.prompt_tokens = length_ - before;
  generated.first_after = absl::Now() - start;
  while (generated.finish.empty()) {
    if (options_.stop_ids.contains(token.id)) {
      generated.finish = "stop";
      break;
    }
    unfed_ = token.id;
    generated.ids.push_back(token.id);
    generated.others_took = absl::Now() - start - generated.first_after;
    const std::string shown = stops.Add(token.text);
    generated.text += shown;
    on_token(token.id, shown);
    if (stops.is_over()) {
      generated.finish = "stop";
    } else if (std::ssize(generated.ids) >= options_.max_tokens) {
      generated.finish = "length";
    } else if (options_.max_positions > 0 && length_ >= options_.max_positions) {
      generated.finish = "full";
    } else {
      ASSIGN_OR_RETURN(token, Step(TokenIdsInput{{*std::exchange(unfed_, std::nullopt)}}));
    }
  }
  const std::string rest = stops.Rest();
  generated.text += rest;
  on_token(-1, rest);
  return generated;
}

}  // namespace attention
