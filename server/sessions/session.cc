#include "server/sessions/session.h"

#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"

namespace attention {

absl::Status Session::Add(int64_t number) {
  ASSIGN_OR_RETURN(std::vector<KvCache> caches, plan_.target.make_caches());
  sequences_.emplace(number, SessionSequence{.caches = std::move(caches)});
  return absl::OkStatus();
}

absl::Status NoSuchSequence(int64_t number) {
  return absl::NotFoundError(
      absl::StrCat("sequence: expected one that `open` or `fork` made, found ", number));
}

absl::StatusOr<SessionSequence*> Session::Find(int64_t number) {
  const auto found = sequences_.find(number);
  if (found == sequences_.end()) {
    return NoSuchSequence(number);
  }
  return &found->second;
}

absl::Status Session::Fork(SessionSequence& parent, int64_t number,
                           std::unique_ptr<FairBudget::Part> tables) {
  if (number < 1 || number > kMaxSequenceNumber) {
    return absl::InvalidArgumentError(
        absl::StrCat("fork.new_sequence: expected 1 to ", kMaxSequenceNumber, ", found ", number));
  }
  if (sequences_.contains(number)) {
    return absl::AlreadyExistsError(
        absl::StrCat("fork.new_sequence: expected a number that is free, found ", number));
  }
  if (std::ssize(sequences_) >= kMaxSequences) {
    return absl::ResourceExhaustedError(absl::StrCat("fork: expected at most ", kMaxSequences,
                                                     " sequences in a session, found as many"));
  }
  SessionSequence fork = {.caches = {},
                          .length = parent.length,
                          .cache_bytes = parent.cache_bytes,
                          .tables = std::move(tables)};
  for (KvCache& cache : parent.caches) {
    fork.caches.push_back(cache.Fork());
  }
  sequences_.emplace(number, std::move(fork));
  return absl::OkStatus();
}

SessionUse Session::use() const {
  SessionUse use = {.sequences = std::ssize(sequences_)};
  for (const auto& [_, sequence] : sequences_) {
    use.tokens += sequence.length;
    use.cache_bytes += sequence.cache_bytes;
  }
  return use;
}

// A thousand forks of a long sequence have as many times its pages, so that little is done for
// each.
SessionPages Session::pages() const {
  SessionPages pages;
  std::unordered_map<const void*, SessionPages::Shared> shared;
  for (const auto& [_, sequence] : sequences_) {
    for (int64_t token = 0; token < sequence.length;
         token = NextPage(sequence.caches.front(), token)) {
      const void* const page = sequence.caches.front().PageOf(token);
      ++shared.try_emplace(page, SessionPages::Shared{sequence.caches, token})
            .first->second.num_users;
    }
  }
  for (const auto& [_, use] : shared) {
    const CachePage page = CachePageOf(use.caches, use.token);
    pages.size_bytes += page.size_bytes;
    if (page.num_users <= use.num_users) {
      pages.own_bytes += page.size_bytes;
    } else {
      pages.shared.push_back(use);
    }
  }
  return pages;
}

size_t BytesToMove(const SessionSequence& sequence, int64_t tokens) {
  size_t bytes = 0;
  for (const KvCache& cache : sequence.caches) {
    bytes += cache.BytesToMove(tokens);
  }
  return bytes;
}

KvGrowth GrowthFor(const std::vector<KvCache>& caches, int64_t tokens, int64_t leaving) {
  KvGrowth growth;
  for (const KvCache& cache : caches) {
    growth += cache.GrowthFor(tokens, leaving);
  }
  return growth;
}

// Looks at all caches first, since a page that was replaced by a larger one does not come back.
absl::Status ReserveTokens(std::vector<KvCache>& caches, int64_t tokens) {
  const KvGrowth growth = GrowthFor(caches, tokens);
  const KvMemory::Room room =
      caches.empty() ? KvMemory::Room::kEnough : caches.front().memory().RoomFor(growth);
  if (room != KvMemory::Room::kEnough) {
    return Refuse(absl::StatusCode::kResourceExhausted,
                  absl::StrCat("key/value cache: expected room for ", tokens, " tokens more (",
                               growth.bytes, " bytes), found ",
                               caches.front().memory().Describe(growth), " (--max-cache-bytes)"),
                  {.reason = room == KvMemory::Room::kShareUsed ? RefusalReason::kTenantShare
                                                                : RefusalReason::kLimit});
  }
  for (KvCache& cache : caches) {
    if (absl::Status status = cache.Reserve(tokens); !status.ok()) {
      for (KvCache& each : caches) {
        each.Truncate(each.length()).IgnoreError();  // gives back what it has reserved
      }
      return absl::ResourceExhaustedError(
          absl::StrCat(std::string(status.message()), " (--max-cache-bytes)"));
    }
  }
  return absl::OkStatus();
}

int64_t TableBytes(const std::vector<KvCache>& caches) {
  size_t bytes = 0;
  for (const KvCache& cache : caches) {
    bytes += cache.table_bytes();
  }
  return static_cast<int64_t>(bytes);
}

void SetSize(SessionSequence& sequence) {
  sequence.cache_bytes = 0;
  for (const KvCache& cache : sequence.caches) {
    sequence.cache_bytes += static_cast<int64_t>(cache.size_bytes());
  }
}

absl::Status TruncateTokens(SessionSequence& sequence, int64_t length) {
  if (length < 0 || length > sequence.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncate.length: expected 0 to ", sequence.length, ", found ", length));
  }
  for (KvCache& cache : sequence.caches) {
    RETURN_IF_ERROR(cache.Truncate(length));
  }
  sequence.length = length;
  SetSize(sequence);
  return absl::OkStatus();
}

}  // namespace attention
