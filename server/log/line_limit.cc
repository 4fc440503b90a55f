#include "server/log/line_limit.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "server/log/log.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

}  // namespace

LineLimit::LineLimit(std::string subject)
    : subject_(std::move(subject)), thread_([this] { Run(); }) {}

LineLimit::~LineLimit() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool LineLimit::Take() {
  const int64_t second =
      std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now().time_since_epoch())
          .count();
  MutexLock lock(mutex_);
  if (second != second_) {
    second_ = second;
    lines_ = 0;
  }
  if (lines_ < kMaxLines) {
    ++lines_;
    return true;
  }
  if (++left_out_ == 1) {
    changed_.NotifyAll();
  }
  return false;
}

void LineLimit::Run() {
  bool is_ending = false;
  while (!is_ending) {
    int64_t left_out = 0;
    {
      MutexLock lock(mutex_);
      while (left_out_ == 0 && !is_ending_) {
        changed_.Wait(mutex_);
      }
      const steady_clock::time_point end = steady_clock::now() + std::chrono::seconds(1);
      while (!is_ending_ && changed_.WaitUntil(mutex_, end)) {
      }
      left_out = std::exchange(left_out_, 0);
      is_ending = is_ending_;
    }
    if (left_out > 0) {
      ContainVoid("logging", [&] {
        Log({.level = LogLevel::kWarning,
             .text = absl::StrCat("log lines about ", subject_, " were left out"),
             .fields = {{"lines_left_out", left_out}}});
      }).IgnoreError();
    }
  }
}

}  // namespace attention
