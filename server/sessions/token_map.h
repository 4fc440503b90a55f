// What is found by the resume token of a session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace attention {

/// A map whose values are found by the resume token of their session, and by its earlier token as
/// long as that is valid. `Value` has a method `std::string& earlier_token()`; empty: there is
/// none. Not thread-safe.
template <typename Value>
class TokenMap {
 public:
  using Values = std::map<std::string, Value>;
  using iterator = typename Values::iterator;

  TokenMap() = default;
  /// A map with one value.
  TokenMap(const std::string& token, Value value) {
    if (!value.earlier_token().empty()) {
      current_token_.emplace(value.earlier_token(), token);
    }
    values_.emplace(token, std::move(value));
  }

  /// Takes the values of `other`, without allocating memory. An earlier token that is there already
  /// finds the new value from now on. REQUIRES: the tokens of the new values are not there yet.
  void Merge(TokenMap& other) {
    values_.merge(other.values_);
    for (auto& [earlier, token] : other.current_token_) {
      if (const auto found = current_token_.find(earlier); found != current_token_.end()) {
        found->second.swap(token);
      }
    }
    current_token_.merge(other.current_token_);
  }
  /// Returns the value of a token or of an earlier token; end() when there is none.
  iterator Find(const std::string& token) {
    const auto current = current_token_.find(token);
    return values_.find(current == current_token_.end() ? token : current->second);
  }
  /// Returns the value of a token; end() when there is none.
  iterator FindCurrent(const std::string& token) { return values_.find(token); }
  /// Removes a value, and returns it. Allocates no memory.
  Value Remove(iterator found) {
    ForgetEarlierToken(found);
    return std::move(values_.extract(found).mapped());
  }
  /// From now on, the value is found by its token alone. Its own earlier_token stays.
  void ForgetEarlierToken(iterator found) {
    const auto earlier = current_token_.find(found->second.earlier_token());
    if (earlier != current_token_.end() && earlier->second == found->first) {
      current_token_.erase(earlier);
    }
  }

  iterator begin() { return values_.begin(); }
  iterator end() { return values_.end(); }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }

 private:
  Values values_;                                     // by token
  std::map<std::string, std::string> current_token_;  // the token, by earlier token
};

}  // namespace attention
