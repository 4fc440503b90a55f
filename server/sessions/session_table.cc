#include "server/sessions/session_table.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

bool MayTakePages(size_t own, size_t more, size_t used, size_t max) {
  return AccountShares::Allows(static_cast<int64_t>(own), static_cast<int64_t>(more),
                               static_cast<int64_t>(used), static_cast<int64_t>(max));
}

}  // namespace

SessionTable::SessionTable(const SessionLimits& limits, Clock clock)
    : limits_(limits),
      memory_(std::make_shared<KvMemory>(static_cast<size_t>(limits.max_cache_bytes))),
      waiting_bytes_(limits.max_waiting_bytes),
      table_bytes_(limits.max_table_bytes),
      prefixes_(limits.max_prefix_bytes,
                [this] {
                  {
                    MutexLock lock(mutex_);
                    has_removed_prefixes_ = true;
                  }
                  changed_.NotifyAll();
                }),
      clock_(std::move(clock)),
      expiry_([this] { Expire(); }) {}

SessionTable::~SessionTable() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
  expiry_.join();
  // Destroyed without the lock, which a session's slot takes when it is given back.
  TokenMap<ParkedUntil> forgotten;
  MutexLock lock(mutex_);
  std::swap(forgotten, parked_);
}

absl::StatusOr<std::shared_ptr<SessionTable::Slot>> SessionTable::TakeSlot(
    const std::string& account) {
  absl::Status refused;
  const auto slots_of = [this](const std::string& other)
                            ABSL_NO_THREAD_SAFETY_ANALYSIS { return slots_.HeldBy(other); };
  do {
    {
      MutexLock lock(mutex_);
      const bool has_room = slots_.used() < limits_.max_sessions && slots_.Allows(account, 1);
      refused = has_room ? absl::OkStatus() : RefuseSlot(account);
      slots_.Add(account, has_room ? 1 : 0);
    }
    if (refused.ok()) {
      try {
        return std::make_shared<Slot>(*this, account);
      } catch (...) {
        MutexLock lock(mutex_);
        slots_.Remove(account, 1);
        throw;
      }
    }
  } while (EndOneParked(account, slots_of));
  return refused;
}

absl::Status SessionTable::RefuseSlot(const std::string& account) const {
  const bool is_full = slots_.used() >= limits_.max_sessions;
  const std::string found =
      is_full ? Counted(slots_.used(), "open session")
              : absl::StrCat(account, " has used its share of sessions, ", slots_.HeldBy(account),
                             " of the ", slots_.used(), " that are open");
  return Refuse(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("open: ", found, "; the maximum is ", limits_.max_sessions, " (--max-sessions)"),
      {.reason = is_full ? RefusalReason::kLimit : RefusalReason::kTenantShare});
}

std::shared_ptr<KvMemory> SessionTable::memory(const std::string& account) {
  if (account.empty()) {
    return memory_;
  }
  MutexLock lock(mutex_);
  if (const auto found = parts_.find(account); found != parts_.end()) {
    if (std::shared_ptr<KvMemory> part = found->second.lock()) {
      return part;
    }
  }
  std::erase_if(parts_, [](const auto& part) { return part.second.expired(); });
  auto part = std::make_shared<KvMemory>(memory_, MayTakePages, account);
  parts_[account] = part;
  return part;
}

int64_t SessionTable::CacheBytesOf(const std::string& account) const {
  const auto found = parts_.find(account);
  const std::shared_ptr<KvMemory> part = found == parts_.end() ? nullptr : found->second.lock();
  return part == nullptr ? 0 : static_cast<int64_t>(part->used_bytes());
}

bool SessionTable::EndOneParkedFor(const std::string& account) {
  return EndOneParked(account, [this](const std::string& other)
                                   ABSL_NO_THREAD_SAFETY_ANALYSIS { return CacheBytesOf(other); });
}

bool SessionTable::EvictPrefixFor(const std::string& account) {
  return prefixes_.EvictFor(account, [this](const std::string& other) {
    MutexLock lock(mutex_);
    return CacheBytesOf(other);
  });
}

absl::Status SessionTable::ReserveFor(const std::string& account, std::vector<KvCache>& caches,
                                      int64_t tokens, MayEndParked may_end_parked) {
  if (GrowthFor(caches, tokens).bytes == 0) {
    return ReserveTokens(caches, tokens);
  }
  MutexLock reserving(reserving_);
  absl::Status reserved = ReserveTokens(caches, tokens);
  if (!absl::IsResourceExhausted(reserved)) {
    return reserved;
  }
  prefixes_.RemoveGone();
  prefixes_.DestroyRemoved();
  reserved = ReserveTokens(caches, tokens);
  bool could_fit = CouldFit(account, GrowthFor(caches, tokens), may_end_parked);
  if (!could_fit && StopSharing(account, caches, tokens, may_end_parked)) {
    reserved = ReserveTokens(caches, tokens);
    could_fit = true;
  }
  const auto lacks_bytes = [&] {
    return caches.front().memory().RoomFor(GrowthFor(caches, tokens)) != KvMemory::Room::kEnough;
  };
  while (could_fit && absl::IsResourceExhausted(reserved) &&
         (EvictPrefixFor(account) ||
          (may_end_parked == MayEndParked::kYes && lacks_bytes() && EndOneParkedFor(account)))) {
    reserved = ReserveTokens(caches, tokens);
  }
  return reserved;
}

bool SessionTable::StopSharing(const std::string& account, const std::vector<KvCache>& caches,
                               int64_t tokens, MayEndParked may_end_parked) {
  if (may_end_parked == MayEndParked::kNo || caches.empty() || caches.front().length() == 0) {
    return false;
  }
  const void* const page = caches.front().PageOf(caches.front().length() - 1);
  const int64_t sharing = prefixes_.NumSharing(page);
  return sharing > 0 && CouldFit(account, GrowthFor(caches, tokens, sharing), may_end_parked) &&
         prefixes_.StopSharing(page);
}

// It looks at prefixes first and stops when they are enough: evicting them is usual.
bool SessionTable::CouldFit(const std::string& account, const KvGrowth& growth,
                            MayEndParked may_end_parked) {
  FreeablePages pages;
  const std::shared_ptr<KvMemory> part = memory(account);
  const auto own_bytes = static_cast<int64_t>(part->used_bytes());
  int64_t own_freed = 0;
  int64_t others_freed = 0;
  const auto fits = [&] {
    return part->RoomFor(growth, own_freed, others_freed) == KvMemory::Room::kEnough;
  };
  prefixes_.VisitPages([&](const std::string& owner, const CachePage& page) {
    const bool is_new =
        pages.try_emplace(page.page, FreeablePage{owner, page.size_bytes, page.num_users}).second;
    MutexLock lock(mutex_);
    if (is_new && page.num_users <= 0 && (owner == account || CacheBytesOf(owner) > own_bytes)) {
      (owner == account ? own_freed : others_freed) += page.size_bytes;
    }
    return !fits();
  });
  if (fits()) {
    return true;
  }
  std::map<std::string, int64_t> freed;
  MutexLock lock(mutex_);
  if (may_end_parked == MayEndParked::kYes) {
    // If all that they hold would not be enough, there is no need to look at each of them.
    const int64_t own = ends_.BytesOf(account);
    const int64_t others = ends_.bytes() - own;
    if (part->RoomFor(growth, own_freed + own, others_freed + others) != KvMemory::Room::kEnough) {
      return false;
    }
    for (const auto& [_, until] : parked_) {
      const std::string& owner = until.parked.slot->account();
      freed[owner] += until.pages.own_bytes;
      for (const SessionPages::Shared& shared : until.pages.shared) {
        const CachePage page = CachePageOf(shared.caches, shared.token);
        pages.try_emplace(page.page, FreeablePage{owner, page.size_bytes, page.num_users})
            .first->second.num_users -= shared.num_users;
      }
    }
  }
  AddFreedBytes(pages, freed);
  own_freed = freed[account];
  others_freed = 0;
  for (const auto& [other, bytes] : freed) {
    const bool may_go = other != account && CacheBytesOf(other) > own_bytes - own_freed;
    others_freed += may_go ? bytes : 0;
  }
  return fits();
}

bool SessionTable::EndOneParked(const std::string& account,
                                absl::FunctionRef<int64_t(const std::string&)> bytes_of) {
  Parked ended;  // destroyed without the lock, since it gives its slot and its pages back
  MutexLock lock(mutex_);
  const int64_t own = bytes_of(account);
  const EndOrder::Ends::value_type* const first = ends_.First(
      [&](const std::string& other) { return other == account || bytes_of(other) > own; });
  if (first == nullptr) {
    return false;
  }
  ended = RemoveParked(parked_.FindCurrent(first->second));
  ++evicted_;
  return true;
}

SessionTable::Parked SessionTable::RemoveParked(TokenMap<ParkedUntil>::iterator found) {
  const ParkedUntil& until = found->second;
  ends_.Remove(until.parked.slot->account(), until.end, found->first, until.pages.size_bytes);
  return parked_.Remove(found).parked;
}

void SessionTable::GiveSlotBack(const std::string& account) {
  MutexLock lock(mutex_);
  slots_.Remove(account, 1);
}

void SessionTable::Park(const std::string& token, Parked parked) {
  const TimePoint end = clock_() + absl::ToChronoNanoseconds(parked.session->plan().time_to_live);
  // Made without the lock: if there is no memory for it, the session ends and gives its slot back.
  SessionPages pages = parked.session->pages();
  EndOrder order(parked.slot->account(), end, token, pages.size_bytes);
  TokenMap<ParkedUntil> entry(token, ParkedUntil{std::move(parked), end, std::move(pages)});
  MutexLock lock(mutex_);
  ends_.Merge(order);
  parked_.Merge(entry);
  if (end < next_end_) {
    changed_.NotifyAll();
  }
}

absl::StatusOr<SessionTable::Parked> SessionTable::Take(
    const std::string& token, const std::string& tenant,
    absl::FunctionRef<absl::Status(const Session&)> check, const std::string& new_token,
    Streamed streamed) {
  TokenMap<StreamedEntry> entry;
  if (!new_token.empty()) {
    entry = {new_token, StreamedEntry{std::move(streamed)}};
  }
  MutexLock lock(mutex_);
  const auto found = parked_.Find(token);
  if (found == parked_.end() || found->second.parked.tenant != tenant) {
    return absl::NotFoundError(
        "open.resume_token: expected the token of a session that can be resumed, found another: "
        "its session may have expired, or another stream has resumed it");
  }
  RETURN_IF_ERROR(check(*found->second.parked.session));
  Parked parked = RemoveParked(found);
  ++resumed_;
  for (auto& [_, now] : entry) {
    now.streamed.session = parked.session;
  }
  streamed_.Merge(entry);
  return parked;
}

void SessionTable::AddStreamed(const std::string& token, Streamed streamed) {
  TokenMap<StreamedEntry> entry(token, StreamedEntry{std::move(streamed)});
  MutexLock lock(mutex_);
  streamed_.Merge(entry);
}

void SessionTable::ForgetEarlierToken(const std::string& token) {
  MutexLock lock(mutex_);
  if (const auto found = streamed_.FindCurrent(token); found != streamed_.end()) {
    streamed_.ForgetEarlierToken(found);
  }
}

SessionTable::Waiters SessionTable::RemoveStreamed(const std::string& token) {
  MutexLock lock(mutex_);
  const auto found = streamed_.FindCurrent(token);
  return found == streamed_.end() ? Waiters() : streamed_.Remove(found).waiters;
}

bool SessionTable::TakeOver(const std::string& token, const std::string& tenant,
                            absl::FunctionRef<absl::Status(const Session&)> check,
                            std::function<void()> then) {
  std::function<void()> end;
  std::shared_ptr<const Session> session;  // released without the lock
  {
    MutexLock lock(mutex_);
    const auto found = streamed_.Find(token);
    if (found == streamed_.end() || found->second.streamed.tenant != tenant) {
      return false;
    }
    session = found->second.streamed.session.lock();
    if (session == nullptr || !check(*session).ok()) {
      return false;
    }
    end = found->second.streamed.end;
    found->second.waiters.push_back(std::move(then));
  }
  end();
  return true;
}

std::string SessionTable::MakeResumeToken() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&token, absl::Hex(device(), absl::kZeroPad8));
  }
  return token;
}

SessionStatistics SessionTable::statistics() const {
  MutexLock lock(mutex_);
  return {.sessions = slots_.used(),
          .parked = parked_.size(),
          .cache_bytes = static_cast<int64_t>(memory_->used_bytes()),
          .max_cache_bytes = limits_.max_cache_bytes,
          .resumed = resumed_,
          .expired = expired_,
          .evicted = evicted_};
}

void SessionTable::Expire() {
  mutex_.Lock();
  while (!is_closed_) {
    if (std::exchange(has_removed_prefixes_, false)) {
      mutex_.Unlock();
      prefixes_.DestroyRemoved();
      mutex_.Lock();
      continue;
    }
    const TimePoint now = clock_();
    const EndOrder::Ends::value_type* const first =
        ends_.First([](const std::string& /*account*/) { return true; });
    if (first == nullptr || first->first > now) {
      next_end_ = now + std::chrono::hours(1);
      next_end_ = first == nullptr ? next_end_ : std::min(next_end_, first->first);
      changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + (next_end_ - now));
      continue;
    }
    Parked over = RemoveParked(parked_.FindCurrent(first->second));
    ++expired_;
    mutex_.Unlock();
    over = {};  // it gives its slot and its pages back
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace attention
