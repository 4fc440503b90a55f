// The checks by which the queue refuses jobs, and the reasons of these refusals.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"
#include "server/scheduling/request_queue.h"

namespace attention {
namespace {

using std::chrono::nanoseconds;

// How many times the free amount a tenant may hold. This is less than an account may hold
// (AccountShares::kMultipleOfFree), so that one tenant of an account leaves room for another.
constexpr double kMultipleOfTenant = 4;

// Returns how much longer than expected a wait may be: a quarter of it, and the time of a batch,
// since a job ends with the batch that it is in.
int64_t SpareOf(int64_t wait_ns, const WorkEstimate& work) {
  const int64_t batch_ns = work.batch_ns > 0 ? work.batch_ns : work.alone_ns;
  return std::min(wait_ns, wait_ns / 4 + batch_ns);
}

// The retries of refused jobs are spread over --max-queue-wait, but over at least kMinSpread and at
// most kMaxSpread.
constexpr nanoseconds kMinSpread = std::chrono::seconds(1);
constexpr nanoseconds kMaxSpread = std::chrono::minutes(1);
// The accounts whose retries are spread at a time.
constexpr size_t kMaxSpreadAccounts = 1024;

int64_t Milliseconds(int64_t ns) { return (ns + 999'999) / 1'000'000; }

/// Who has used up a share: an account, or a tenant of it.
struct Holder {
  std::string name;
  QueueState held;
};

std::string TextOf(const QueueState& held) {
  return absl::StrCat(Counted(held.requests, "request"), " of ", held.bytes, " bytes and about ",
                      Milliseconds(held.work_ns), " ms wait");
}

}  // namespace

int64_t RequestQueue::WaitOf(const Candidate& candidate) const {
  const bool is_short = candidate.work.added_ns <= kShortNs;
  const RequestFlows::NextJob next = flows_.NextJobOf(candidate.request_class, is_short);
  const auto wait_ns = static_cast<int64_t>(next.waiting_ns);
  const int64_t running_ns = std::max<int64_t>(0, Nanoseconds(running_.until - candidate.now));
  const bool waits_to_share = running_.shared_key.has_value() && candidate.key != nullptr &&
                              *candidate.key == *running_.shared_key;
  if (running_ns <= kShortNs || !running_.passable.has_value() || waits_to_share) {
    return running_ns + wait_ns;
  }
  if (is_short && candidate.request_class.priority <= *running_.passable) {
    return kShortNs + 2 * wait_ns;  // the running batch gets its half
  }
  // The job passes the running batch when that has reached the end of the job: see
  // Batcher::NextBefore.
  const double ahead =
      next.start - flows_.virtual_time() +
      static_cast<double>(candidate.work.added_ns) / ShareOf(candidate.request_class.priority);
  const double passing_ns = static_cast<double>(kShortNs) + ahead * ShareOf(*running_.passable);
  return wait_ns + std::min(running_ns, static_cast<int64_t>(std::min(passing_ns, 1e18)));
}

absl::Status RequestQueue::RefuseFor(const Candidate& candidate, RefusalReason reason,
                                     const std::string& text) const {
  const int64_t wait_ns = WaitOf(candidate);
  const int64_t half_ns = std::min(limits_.max_wait_ns, work_ns_.used()) / 2;
  return Refuse(absl::StatusCode::kResourceExhausted, text,
                {.reason = reason,
                 .retry_after_ms = std::max<int64_t>(1, Milliseconds(wait_ns - half_ns)),
                 .estimated_wait_ms = Milliseconds(wait_ns)});
}

// Spreads the retries of an account: jobs that were refused together would otherwise come back
// together, and be refused again.
absl::Status RequestQueue::SpreadRetries(const Candidate& candidate, const absl::Status& status) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (!refusal.has_value() || !absl::IsResourceExhausted(status)) {
    return status;
  }
  if (next_retries_.size() >= kMaxSpreadAccounts) {
    std::erase_if(next_retries_, [&](const auto& entry) { return entry.second <= candidate.now; });
  }
  if (next_retries_.size() >= kMaxSpreadAccounts) {
    return status;
  }
  TimePoint& next = next_retries_[candidate.request_class.account];
  const TimePoint first = candidate.now + std::chrono::milliseconds(refusal->retry_after_ms);
  const TimePoint last =
      first + std::clamp(nanoseconds(limits_.max_wait_ns), kMinSpread, kMaxSpread);
  const TimePoint own = std::clamp(next, first, last);
  next = own + nanoseconds(candidate.work.added_ns);
  Refusal later = *refusal;
  later.retry_after_ms += Milliseconds(Nanoseconds(own - first));
  return Refuse(status.code(), std::string(status.message()), later);
}

int64_t RequestQueue::CountedNs(int64_t added_ns) const {
  const auto share_ns = static_cast<int64_t>(static_cast<double>(limits_.max_wait_ns) *
                                             (kMultipleOfTenant / (kMultipleOfTenant + 1)));
  // At least 1, so that with a limit of 0 no job waits for another.
  return std::min(added_ns, std::max<int64_t>(1, share_ns));
}

absl::Status RequestQueue::CheckFit(const Candidate& candidate) const {
  if (is_closed_) {
    return Draining();
  }
  if (requests_.used() >= limits_.max_requests) {
    return RefuseFor(
        candidate, RefusalReason::kQueueRequests,
        absl::StrCat("the queue is full: ", Counted(requests_.used(), "waiting request"),
                     "; the maximum is ", limits_.max_requests, " (--max-queue-requests)"));
  }
  if (bytes_.used() > 0 && bytes_.used() + candidate.bytes > limits_.max_bytes) {
    return RefuseFor(candidate, RefusalReason::kQueueBytes,
                     absl::StrCat("the queue is full: ", bytes_.used(), " bytes wait, ",
                                  candidate.bytes, " more would exceed the limit of ",
                                  limits_.max_bytes, " (--max-queue-bytes)"));
  }
  if (requests_.used() > 0 &&
      counted_ns_.used() + CountedNs(candidate.work.added_ns) > limits_.max_wait_ns) {
    return RefuseFor(
        candidate, RefusalReason::kQueueWait,
        absl::StrCat("the queue is full: the waiting requests take about ",
                     Milliseconds(work_ns_.used()), " ms, this request ",
                     Milliseconds(candidate.work.added_ns), " ms more; the maximum is ",
                     Milliseconds(limits_.max_wait_ns), " ms (--max-queue-wait)"));
  }
  return absl::OkStatus();
}

QueueState RequestQueue::HeldBy(const RequestClass& request_class) const {
  QueueState held;
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    const RequestFlow* const flow = flows_.Find(
        {.priority = priority, .tenant = request_class.tenant, .account = request_class.account});
    if (flow != nullptr) {
      held.requests += flow->requests;
      held.bytes += flow->bytes;
      held.work_ns += flow->work_ns;
      held.counted_ns += flow->counted_ns;
    }
  }
  return held;
}

absl::Status RequestQueue::CheckShare(const Candidate& candidate) const {
  const std::string& account = candidate.request_class.account;
  const QueueState named =
      candidate.request_class.tenant.empty() ? QueueState() : HeldBy(candidate.request_class);
  struct Part {
    const AccountShares& all;
    int64_t own_of_tenant;
    int64_t more;
    RefusalReason reason;
    const char* limit;
  };
  for (const Part& part :
       {Part{requests_, named.requests, 1, RefusalReason::kQueueRequests, "--max-queue-requests"},
        Part{bytes_, named.bytes, candidate.bytes, RefusalReason::kQueueBytes, "--max-queue-bytes"},
        Part{counted_ns_, named.counted_ns, CountedNs(candidate.work.added_ns),
             RefusalReason::kQueueWait, "--max-queue-wait"}}) {
    const bool exceeds_account = !part.all.Allows(account, part.more);
    if (!exceeds_account && AccountShares::Allows(part.own_of_tenant, part.more, part.all.used(),
                                                  part.all.limit(), kMultipleOfTenant)) {
      continue;
    }
    const Holder holder =
        exceeds_account
            ? Holder{account,
                     {requests_.HeldBy(account), bytes_.HeldBy(account), work_ns_.HeldBy(account),
                      counted_ns_.HeldBy(account)}}
            : Holder{absl::StrCat("tenant \"", candidate.request_class.tenant, "\""), named};
    const int64_t own = exceeds_account ? part.all.HeldBy(account) : part.own_of_tenant;
    // When nobody else waits, there is no share that others could use: more servers would help.
    return own == part.all.used()
               ? RefuseFor(candidate, part.reason,
                           absl::StrCat("the queue is full: ", TextOf(holder.held),
                                        ", all of them of ", holder.name,
                                        ", which must leave a part of ", part.limit, " free"))
               : RefuseFor(candidate, RefusalReason::kTenantShare,
                           absl::StrCat(holder.name,
                                        " has used its share of the queue: ", TextOf(holder.held)));
  }
  return absl::OkStatus();
}

absl::Status RequestQueue::CheckDeadline(const Candidate& candidate) const {
  if (candidate.deadline == TimePoint::max()) {
    return absl::OkStatus();
  }
  const int64_t left_ns = Nanoseconds(candidate.deadline - candidate.now);
  const int64_t wait_ns = WaitOf(candidate);
  if (candidate.work.alone_ns > left_ns) {
    return Refuse(
        absl::StatusCode::kDeadlineExceeded,
        left_ns <= 0
            ? "the deadline passed before the request was queued"
            : absl::StrCat("the request takes about ", Milliseconds(candidate.work.alone_ns),
                           " ms, its deadline is in ", Milliseconds(left_ns), " ms"),
        {.reason = RefusalReason::kDeadline,
         .retry_after_ms = Milliseconds(wait_ns),
         .estimated_wait_ms = Milliseconds(wait_ns)});
  }
  const double share = spare_.ShareOf(candidate.request_class.account, candidate.now);
  const auto spare_ns =
      static_cast<int64_t>(share * static_cast<double>(SpareOf(wait_ns, candidate.work)));
  if (wait_ns + spare_ns + candidate.work.alone_ns > left_ns) {
    return RefuseFor(
        candidate, RefusalReason::kDeadline,
        absl::StrCat(
            "the request would wait about ", Milliseconds(wait_ns), " ms",
            spare_ns > 0 ? absl::StrCat(", perhaps ", Milliseconds(spare_ns), " ms longer,") : "",
            " and take ", Milliseconds(candidate.work.alone_ns), " ms, its deadline is in ",
            Milliseconds(left_ns), " ms"));
  }
  return absl::OkStatus();
}

absl::Status RequestQueue::CheckOnce(const Candidate& candidate) const {
  RETURN_IF_ERROR(CheckFit(candidate));
  RETURN_IF_ERROR(CheckShare(candidate));
  return CheckDeadline(candidate);
}

absl::Status RequestQueue::Check(const Candidate& candidate) {
  absl::Status status = CheckOnce(candidate);
  if (!status.ok() && Sweep(candidate.now)) {
    status = CheckOnce(candidate);
  }
  return status.ok() ? status : SpreadRetries(candidate, status);
}

absl::Status RequestQueue::CheckRoom(const RequestClass& request_class, TimePoint deadline,
                                     TimePoint now) {
  MutexLock lock(mutex_);
  Candidate mean = {.request_class = request_class,
                    .bytes = 1,
                    .work = {.added_ns = 1},
                    .deadline = TimePoint::max(),
                    .now = now};
  if (const RequestFlow* const own = flows_.Find(request_class); own != nullptr) {
    mean.bytes = std::max<int64_t>(1, static_cast<int64_t>(own->mean_bytes));
    mean.work.added_ns = std::max<int64_t>(1, static_cast<int64_t>(own->mean_ns));
  }
  RETURN_IF_ERROR(Check(mean));
  Candidate shortest = mean;
  shortest.work = {};
  shortest.deadline = deadline;
  const absl::Status in_time = CheckDeadline(shortest);
  return !in_time.ok() && Sweep(now) ? CheckDeadline(shortest) : in_time;
}

}  // namespace attention
