#include "client/cli/stop_texts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace attention {

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

}  // namespace attention
