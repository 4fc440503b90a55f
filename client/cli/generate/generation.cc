#include "client/cli/generate/generation.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"

namespace attention {

double Generated::MillisecondsEach() const {
  const int64_t others = std::ssize(ids) - 1;
  return others > 0 ? absl::ToDoubleMilliseconds(others_took) / static_cast<double>(others) : 0;
}

std::string Generated::Timing() const {
  std::string line =
      absl::StrCat(Counted(std::ssize(ids), "token"), " after ", prompt_tokens, ", ended by ",
                   finish == "full" ? "the model's longest sequence" : finish);
  if (!ids.empty()) {
    absl::StrAppendFormat(&line, "; first after %.1f ms", absl::ToDoubleMilliseconds(first_after));
  }
  if (const double each_ms = MillisecondsEach(); each_ms > 0) {
    absl::StrAppendFormat(&line, ", then %.2f ms each (%.1f/s)", each_ms, 1e3 / each_ms);
  }
  return line;
}

absl::StatusOr<Generation::Token> Generation::Step(decltype(AttendRequest::input) input) {
  ASSIGN_OR_RETURN(const StepResult result,
                   stream_.Step({.input = std::move(input), .top_logits = sampler_.num_logits()}));
  length_ = result.session.length;
  const v1::TopLogits& top = *result.top_logits;  // which Step has checked
  const int chosen = sampler_.Choose(top);
  return Token{top.ids(chosen), chosen < top.tokens_size() ? top.tokens(chosen) : ""};
}

absl::StatusOr<Generated> Generation::Continue(decltype(AttendRequest::input) prompt,
                                               const OnToken& on_token) {
  Generated generated;
  StopTexts stops(options_.stop_texts);
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(Token token, Step(std::move(prompt)));
  generated.prompt_tokens = length_;
  generated.first_after = absl::Now() - start;
  while (generated.finish.empty()) {
    if (options_.stop_ids.contains(token.id)) {
      generated.finish = "stop";
      break;
    }
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
      generated.finish = "full";  // the longest sequence of the model
    } else {
      ASSIGN_OR_RETURN(token, Step(TokenIdsInput{{token.id}}));
    }
  }
  const std::string rest = stops.Rest();
  generated.text += rest;
  on_token(-1, rest);
  return generated;
}

std::string StopTexts::Add(const std::string& bytes) {
  if (is_over_) {
    return "";
  }
  held_ += bytes;
  size_t end = held_.size();
  for (const std::string& text : texts_) {
    const size_t at = held_.find(text);
    is_over_ |= at != std::string::npos;
    end = std::min(end, at);
  }
  if (is_over_) {
    held_.resize(end);
    return std::exchange(held_, "");
  }
  for (const std::string& text : texts_) {
    for (size_t length = std::min(text.size() - 1, held_.size()); length > 0; --length) {
      if (absl::EndsWith(held_, text.substr(0, length))) {
        end = std::min(end, held_.size() - length);
        break;
      }
    }
  }
  std::string shown = held_.substr(0, end);
  held_.erase(0, end);
  return shown;
}

std::string StopTexts::Rest() { return std::exchange(held_, ""); }

int TokenSampler::Choose(const v1::TopLogits& top) {
  if (options_.temperature <= 0) {
    return 0;
  }
  const int count = static_cast<int>(std::min<int64_t>(top.logits_size(), options_.top_k));
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    weights.push_back(
        std::exp((double{top.logits(i)} - double{top.logits(0)}) / options_.temperature));
    sum += weights.back();
  }
  double kept = 0;
  int num_kept = 0;
  while (num_kept < count && (num_kept == 0 || kept < options_.top_p * sum)) {
    kept += weights[num_kept++];
  }
  // A double of 53 bits is the same on every machine, unlike the distributions of the library.
  double left = static_cast<double>(generator_() >> 11) * 0x1p-53 * kept;
  for (int i = 0; i < num_kept; ++i) {
    left -= weights[i];
    if (left < 0) {
      return i;
    }
  }
  return num_kept - 1;
}

}  // namespace attention
