// Lines on their way to standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "core/runtime/mutex.h"

namespace attention {

/// Writes lines in their order, by a thread of its own: whoever has something to say never waits
/// for who reads it. What comes when too much waits is left out, and counted; when the reader takes
/// lines again, a line says how many. Thread-safe.
class LogSink {
 public:
  /// `left_out` makes the line about so many that were left out.
  LogSink(int fd, size_t max_bytes, std::function<std::string(int64_t)> left_out);
  /// Leaves what nobody has read by now.
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

  /// `line` with its end. Does not block.
  void Put(const std::string& line);

  /// Waits until all lines are written; false when `patience` was over first.
  bool Flush(std::chrono::nanoseconds patience);

  size_t waiting_bytes() const;
  int64_t lines_left_out() const;

 private:
  void Run();
  /// Waits for something to write, and takes a piece of it; empty: the end.
  std::string TakePiece();
  /// False when the sink ends first.
  bool Write(const std::string& piece);

  const int fd_;
  const size_t max_bytes_;
  const std::function<std::string(int64_t)> left_out_line_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  size_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t unsaid_ ABSL_GUARDED_BY(mutex_) = 0;  // of those, what no line has said yet
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention
