#include "server/sessions/session_table.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

}  // namespace

SessionTable::SessionTable(const SessionLimits& limits)
    : limits_(limits),
      memory_(std::make_shared<KvMemory>(static_cast<size_t>(limits.max_cache_bytes))),
      expiry_([this] { Expire(); }) {}

SessionTable::~SessionTable() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
  expiry_.join();
  std::map<std::string, Waiting> forgotten;
  {
    MutexLock lock(mutex_);
    forgotten.swap(waiting_);
  }
  forgotten.clear();  // which leave the table
}

absl::StatusOr<std::shared_ptr<SessionTable::Place>> SessionTable::Enter() {
  do {
    MutexLock lock(mutex_);
    if (sessions_ < limits_.max_sessions) {
      ++sessions_;
      return std::make_shared<Place>(*this);
    }
  } while (EndOneParked());
  return absl::ResourceExhaustedError(
      absl::StrCat("open: ", limits_.max_sessions, " sessions are open, at most ",
                   limits_.max_sessions, " may be (--max-sessions)"));
}

bool SessionTable::EndOneParked() {
  Parked ended;  // outside the lock: it leaves the table, and gives pages back
  MutexLock lock(mutex_);
  const auto first = std::min_element(
      waiting_.begin(), waiting_.end(),
      [](const auto& one, const auto& other) { return one.second.end < other.second.end; });
  if (first == waiting_.end()) {
    return false;
  }
  ended = std::move(first->second.parked);
  waiting_.erase(first);
  return true;
}

void SessionTable::Leave() {
  MutexLock lock(mutex_);
  --sessions_;
}

void SessionTable::Park(const std::string& token, Parked parked) {
  {
    MutexLock lock(mutex_);
    const TimePoint end =
        steady_clock::now() + absl::ToChronoNanoseconds(parked.session->plan().time_to_live);
    waiting_.insert_or_assign(token, Waiting{std::move(parked), end});
  }
  changed_.NotifyAll();
}

absl::StatusOr<SessionTable::Parked> SessionTable::Take(
    const std::string& token, const std::string& tenant,
    absl::FunctionRef<absl::Status(const Session&)> check) {
  MutexLock lock(mutex_);
  const auto found = waiting_.find(token);
  if (found == waiting_.end() || found->second.parked.tenant != tenant) {
    return absl::NotFoundError(
        "open.resume_token: expected that of a session that waits to be resumed, found another: "
        "its time may be over, or its old stream not ended yet");
  }
  RETURN_IF_ERROR(check(*found->second.parked.session));
  Parked parked = std::move(found->second.parked);
  waiting_.erase(found);
  return parked;
}

std::string SessionTable::MakeToken() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppendFormat(&token, "%08x", device());
  }
  return token;
}

SessionStatistics SessionTable::statistics() const {
  MutexLock lock(mutex_);
  return {.sessions = sessions_,
          .parked = std::ssize(waiting_),
          .cache_bytes = static_cast<int64_t>(memory_->used_bytes()),
          .max_cache_bytes = limits_.max_cache_bytes};
}

void SessionTable::Expire() {
  mutex_.Lock();
  while (!is_closed_) {
    const TimePoint now = steady_clock::now();
    TimePoint next = now + std::chrono::hours(1);
    std::vector<Parked> over;
    for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
      if (waiting->second.end <= now) {
        over.push_back(std::move(waiting->second.parked));
        waiting = waiting_.erase(waiting);
      } else {
        next = std::min(next, waiting->second.end);
        ++waiting;
      }
    }
    if (over.empty()) {
      changed_.WaitUntil(mutex_, next);
      continue;
    }
    mutex_.Unlock();
    over.clear();  // leaves the table, and gives pages back
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace attention
