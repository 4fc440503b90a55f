#include "client/cli/show/top_logits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/token_text.h"

namespace attention {
namespace {

constexpr int64_t kShown = 5;

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

nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences) {
  nlohmann::json json = nlohmann::json::array();
  if (request.model_output != v1::LOGITS && request.model_output != v1::LAST_LOGITS) {
    return json;
  }
  const std::map<int64_t, std::string> known = KnownTokens(result);
  const Tensor logits = result.output.ConvertedTo(Dtype::kF32);
  const int64_t width = logits.shape().empty() ? 0 : logits.shape().back();
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const int64_t end = (sequences[i].first_output_row + sequences[i].output_rows) * width;
    if (sequences[i].output_rows == 0 || end > logits.num_elements()) {
      continue;
    }
    nlohmann::json top = nlohmann::json::array();
    for (const auto& [id, logit] :
         TopLogits({logits.as<float>() + end - width, static_cast<size_t>(width)})) {
      nlohmann::json& entry = top.emplace_back(nlohmann::json{{"id", id}, {"logit", logit}});
      if (const auto token = known.find(id); token != known.end()) {
        entry["token"] = token->second;
      }
    }
    json.push_back({{"sequence", i}, {"top", std::move(top)}});
  }
  return json;
}

std::string NextTokensText(const nlohmann::json& next_tokens) {
  std::string text;
  for (const nlohmann::json& next : next_tokens) {
    absl::StrAppend(&text, "next      after sequence ", next["sequence"].get<int64_t>(), ":");
    for (const nlohmann::json& entry : next["top"]) {
      const std::string token = entry.value("token", "");
      absl::StrAppendFormat(&text, "   %d%s %.4f", entry["id"].get<int64_t>(),
                            token.empty() ? "" : absl::StrCat(" ", ShownToken(token)),
                            entry["logit"].get<double>());
    }
    text.push_back('\n');
  }
  return text;
}

}  // namespace attention
