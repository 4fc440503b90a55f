#include "server/log/log_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace attention {
namespace {

using std::chrono::steady_clock;

// The bytes that a writable pipe takes at once (PIPE_BUF).
constexpr size_t kPieceBytes = 4096;
// The interval at which a thread that cannot write checks whether it is to end.
constexpr int kPollMs = 50;

}  // namespace

LogSink::LogSink(int fd, size_t max_bytes, std::function<std::string(int64_t)> left_out)
    : fd_(fd),
      max_bytes_(max_bytes),
      left_out_line_(std::move(left_out)),
      thread_([this] { Run(); }) {}

LogSink::~LogSink() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LogSink::Put(const std::string& line) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() + writing_bytes_ + line.size() > max_bytes_) {
      ++left_out_;
      ++unreported_;
      return;
    }
    waiting_ += line;
  }
  changed_.NotifyAll();
}

bool LogSink::Flush(std::chrono::nanoseconds patience) {
  const auto end = steady_clock::now() + patience;
  MutexLock lock(mutex_);
  while (!waiting_.empty() || writing_bytes_ > 0) {
    if (!changed_.WaitUntil(mutex_, end)) {
      return waiting_.empty() && writing_bytes_ == 0;
    }
  }
  return true;
}

size_t LogSink::waiting_bytes() const {
  MutexLock lock(mutex_);
  return waiting_.size() + writing_bytes_;
}

int64_t LogSink::lines_left_out() const {
  MutexLock lock(mutex_);
  return left_out_;
}

void LogSink::ReportLeftOut() {
  try {
    waiting_ += left_out_line_(unreported_);
    unreported_ = 0;
  } catch (const std::bad_alloc&) {  // the next piece reports them
  }
}

std::string LogSink::TakePiece() {
  MutexLock lock(mutex_);
  writing_bytes_ = 0;
  if (unreported_ > 0 && waiting_.size() <= max_bytes_ / 8) {  // the reader has continued
    ReportLeftOut();
  }
  if (waiting_.empty()) {
    changed_.NotifyAll();
  }
  while (waiting_.empty() && !is_ending_) {
    changed_.Wait(mutex_);
  }
  std::string piece = std::exchange(waiting_, "");
  writing_bytes_ = piece.size();
  return piece;
}

bool LogSink::Write(const std::string& piece) {
  for (size_t written = 0; is_mid_line_ || written < piece.size();) {
    pollfd poll_for = {.fd = fd_, .events = POLLOUT, .revents = 0};
    if (poll(&poll_for, 1, kPollMs) == 0) {
      MutexLock lock(mutex_);
      if (is_ending_) {
        return false;
      }
      continue;
    }
    const bool ends_line = is_mid_line_;
    const ssize_t bytes = ends_line ? write(fd_, "\n", 1)
                                    : write(fd_, piece.data() + written,
                                            std::min(kPieceBytes, piece.size() - written));
    if (bytes < 0 && errno != EINTR && errno != EAGAIN) {  // the pipe is closed, the disk is full
      MutexLock lock(mutex_);
      left_out_ +=
          std::count(piece.begin() + static_cast<std::ptrdiff_t>(written), piece.end(), '\n');
      is_mid_line_ = written > 0 ? piece[written - 1] != '\n' : is_mid_line_;
      return true;
    }
    if (bytes > 0 && ends_line) {
      is_mid_line_ = false;
    } else if (bytes > 0) {
      written += static_cast<size_t>(bytes);
    }
  }
  return true;
}

void LogSink::Run() {
  for (std::string piece = TakePiece(); !piece.empty() && Write(piece); piece = TakePiece()) {
  }
}

}  // namespace attention
