#include "client/cli/show/top_logits.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/show/attention_table.h"

namespace attention {
namespace {

constexpr int64_t kShown = 5;
constexpr int64_t kMaxTopLogitsShown = 8;

/// A sequence with rows, and the likeliest tokens after its last row.
struct NextTokens {
  int64_t sequence = 0;
  std::vector<TopLogit> top;
};

std::vector<NextTokens> NextTokensOf(const AttendRequest& request, const AttendResult& result,
                                     std::span<const SequenceSpan> sequences) {
  std::vector<NextTokens> next;
  if (request.model_output != v1::LOGITS && request.model_output != v1::LAST_LOGITS) {
    return next;
  }
  const Tensor logits = result.output.ConvertedTo(Dtype::kF32);
  const int64_t width = logits.shape().empty() ? 0 : logits.shape().back();
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const SequenceSpan& span = sequences[i];
    const int64_t end = (span.first_output_row + span.output_rows) * width;
    if (span.output_rows > 0 && end <= logits.num_elements()) {
      next.push_back(
          {i, TopLogits({logits.as<float>() + end - width, static_cast<size_t>(width)})});
    }
  }
  return next;
}

std::map<int64_t, std::string> KnownTokens(const AttendResult& result) {
  std::map<int64_t, std::string> known;
  for (const v1::TokenizedText& text : result.tokens) {
    for (int i = 0; i < text.ids_size(); ++i) {
      known[text.ids(i)] = text.tokens(i);
    }
  }
  return known;
}

}  // namespace

std::vector<TopLogit> TopLogits(std::span<const float> logits) {
  std::vector<TopLogit> all;
  for (const float logit : logits) {
    all.push_back({std::ssize(all), logit});
  }
  const auto end = all.begin() + std::min(kShown, std::ssize(all));
  std::partial_sort(all.begin(), end, all.end(), [](const TopLogit& a, const TopLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  all.erase(end, all.end());
  return all;
}

std::string NextTokensText(const AttendRequest& request, const AttendResult& result,
                           std::span<const SequenceSpan> sequences) {
  const std::map<int64_t, std::string> known = KnownTokens(result);
  std::string text;
  for (const NextTokens& next :
       NextTokensOf(request, result,
                    sequences.first(std::min<size_t>(kMaxTopLogitsShown, sequences.size())))) {
    absl::StrAppend(&text, "next      after sequence ", next.sequence, ":");
    for (const auto& [id, logit] : next.top) {
      const auto token = known.find(id);
      absl::StrAppendFormat(
          &text, "   %d%s %.4f", id,
          token == known.end() ? "" : absl::StrCat(" ", QuotedToken(token->second)), logit);
    }
    text.push_back('\n');
  }
  return text;
}

nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences) {
  const std::map<int64_t, std::string> known = KnownTokens(result);
  nlohmann::json json = nlohmann::json::array();
  for (const NextTokens& next : NextTokensOf(request, result, sequences)) {
    nlohmann::json top = nlohmann::json::array();
    for (const auto& [id, logit] : next.top) {
      nlohmann::json entry = {{"id", id}, {"logit", logit}};
      if (const auto token = known.find(id); token != known.end()) {
        entry["token"] = token->second;
      }
      top.push_back(std::move(entry));
    }
    json.push_back({{"sequence", next.sequence}, {"top", std::move(top)}});
  }
  return json;
}

}  // namespace attention
