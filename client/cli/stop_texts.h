// Text that ends where a stop text begins.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace attention {

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  /// Takes the next bytes, and returns those that can be shown by now: what might begin a stop text
  /// waits for what follows.
  std::string Add(const std::string& bytes);

  /// Whether a stop text was there; nothing is shown from it on.
  bool is_over() const { return is_over_; }

  /// What waits still, when there is no more; forgets it.
  std::string Rest();

 private:
  const std::vector<std::string> texts_;  // none of them empty
  std::string held_;
  bool is_over_ = false;
};

}  // namespace attention
