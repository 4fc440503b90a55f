// What is found by the resume token of a session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace attention {

/// Things by the resume token of their session, and by its earlier token as long as that is valid.
/// `Thing` has a method `std::string& earlier_token()`; empty: there is none. Not thread-safe.
template <typename Thing>
class TokenMap {
 public:
  using Things = std::map<std::string, Thing>;
  using iterator = typename Things::iterator;

  TokenMap() = default;
  /// A map with one thing.
  TokenMap(const std::string& token, Thing thing) {
    if (!thing.earlier_token().empty()) {
      current_token_.emplace(thing.earlier_token(), token);
    }
    things_.emplace(token, std::move(thing));
  }

  /// Takes the things of `other`, without allocating memory. An earlier token that is there already
  /// finds the new thing from now on. REQUIRES: their own tokens are new.
  void Merge(TokenMap& other) {
    things_.merge(other.things_);
    for (auto& [earlier, token] : other.current_token_) {
      if (const auto found = current_token_.find(earlier); found != current_token_.end()) {
        found->second.swap(token);
      }
    }
    current_token_.merge(other.current_token_);
  }
  /// Returns the thing of a token or of an earlier token; end() when there is none.
  iterator Find(const std::string& token) {
    const auto current = current_token_.find(token);
    return things_.find(current == current_token_.end() ? token : current->second);
  }
  /// Returns the thing of a token; end() when there is none.
  iterator FindCurrent(const std::string& token) { return things_.find(token); }
  /// Removes a thing, and returns it. Allocates no memory.
  Thing Remove(iterator found) {
    ForgetEarlierToken(found);
    return std::move(things_.extract(found).mapped());
  }
  /// From now on, the thing is found by its token alone. Its own earlier_token stays.
  void ForgetEarlierToken(iterator found) {
    const auto earlier = current_token_.find(found->second.earlier_token());
    if (earlier != current_token_.end() && earlier->second == found->first) {
      current_token_.erase(earlier);
    }
  }

  iterator begin() { return things_.begin(); }
  iterator end() { return things_.end(); }
  int64_t size() const { return static_cast<int64_t>(things_.size()); }

 private:
  Things things_;
  std::map<std::string, std::string> current_token_;  // by earlier token
};

}  // namespace attention
