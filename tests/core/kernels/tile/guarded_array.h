// Arrays that end at a page without access.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/core/fuzz/guarded_memory.h"

namespace attention {

/// `size` elements, zero at first; an access behind the last one ends the process.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(int64_t size)
      : size_(size),
        memory_(size * static_cast<int64_t>(sizeof(T)), GuardedMemory::Side::kEnd),
        data_(reinterpret_cast<T*>(memory_.data())) {}
  explicit GuardedArray(const std::vector<T>& values) : GuardedArray(std::ssize(values)) {
    std::copy(values.begin(), values.end(), data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  std::vector<T> ToVector() const { return {data_, data_ + size_}; }

 private:
  int64_t size_;
  GuardedMemory memory_;
  T* data_;
};

}  // namespace attention
