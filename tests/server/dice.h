// Choices of random tests, which follow from a seed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>

namespace attention {

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end));
  }
  bool OneIn(int64_t count) { return Below(count) == 0; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(std::ssize(values))];
  }

 private:
  std::mt19937 engine_;
};

}  // namespace attention
