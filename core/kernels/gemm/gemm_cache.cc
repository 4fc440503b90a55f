#include "core/kernels/gemm/gemm_cache.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/kernels/gemm/few_row_gemm.h"
#include "core/kernels/gemm/neon_gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/ukernel_gemm.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

#ifndef __aarch64__
/// Returns whether a few-row product is faster than a ukernel, with the same bits: it prefetches B,
/// for which so few rows wait. 8-bit integers and bf16 gain nothing where a cache holds B, and with
/// AVX-512 Intel's processors lost 2 to 19 %.
bool IsFasterByFewRows(const GemmShape& shape) {
  const Abilities& abilities = CurrentAbilities();
  if (abilities.vector_bits == 512 && abilities.processor.is_intel) {
    return false;
  }
  const bool is_f32 = !shape.int8 && shape.dtype == Dtype::kF32;
  const bool waits = shape.reads_memory && abilities.vector_bits == 512;
  return shape.m <= kFewRows && (is_f32 || waits);
}
#endif

std::unique_ptr<Gemm> Generate(const GemmShape& shape) {
#ifdef __aarch64__
  return MakeNeonGemm(shape);
#else
  const Abilities& abilities = CurrentAbilities();
  const bool has_ukernel =
      abilities.has_ukernels && !shape.bf16_b && (!shape.int8 || abilities.has_vnni);
  return has_ukernel && !IsFasterByFewRows(shape) ? MakeUkernelGemm(shape) : MakeFewRowGemm(shape);
#endif
}

/// Xbyak, which generates code for oneDNN, remembers the first failure of a thread and fails on it
/// ever after. From then on a new thread generates each kernel for that thread.
std::unique_ptr<Gemm> GenerateDespiteFailures(const GemmShape& shape) {
  thread_local bool has_failed = false;
  if (!has_failed) {
    has_failed = true;
    std::unique_ptr<Gemm> gemm = Generate(shape);
    has_failed = false;
    return gemm;
  }
  std::unique_ptr<Gemm> gemm;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      gemm = Generate(shape);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  return gemm;
}

/// The number of leases that live on this thread.
thread_local int leases_of_thread = 0;

}  // namespace

GemmCache& GemmCache::Get() {
  static GemmCache& cache = *new GemmCache;  // never destroyed
  return cache;
}

const Gemm& GemmCache::Find(const GemmShape& shape) {
  MutexLock lock(mutex_);
  auto found = entries_.find(shape);
  if (found == entries_.end()) {
    Entry entry{GenerateDespiteFailures(shape)};
    found = entries_.emplace(shape, std::move(entry)).first;
    ++num_generated_;
    ++num_held_;
  }
  Entry& entry = found->second;
  if (entry.last_round != round_) {
    entry.last_round = round_;
    ++entry.rounds;
  }
  return *entry.gemm;
}

// Between two slices of a computation its thread may run another computation. Only the outer one
// takes the lock: the inner one would wait for its own thread.
void GemmCache::Enter() {
  if (leases_of_thread > 0) {
    ++leases_of_thread;
    return;
  }
  if (HoldsMoreThan(max_kernels_)) {
    std::unique_lock<std::shared_mutex> alone(users_, std::defer_lock);
    if (HoldsMoreThan(2 * max_kernels_)) {
      alone.lock();
    }
    if (alone.owns_lock() || alone.try_lock()) {
      Evict();
    }
  }
  users_.lock_shared();
  leases_of_thread = 1;  // last: an eviction may run out of memory
}

void GemmCache::Leave() {
  if (--leases_of_thread == 0) {
    users_.unlock_shared();
  }
}

// Frees kernels until three quarters of the bound are left, so that evictions are rare.
void GemmCache::Evict() {
  if (void (*forget)() = forget_; forget != nullptr) {
    forget();
  }
  MutexLock lock(mutex_);
  struct Candidate {
    int64_t last_round;
    int64_t rounds;
    GemmShape shape;
  };
  std::vector<Candidate> candidates;
  candidates.reserve(entries_.size());
  for (const auto& [shape, entry] : entries_) {
    candidates.push_back({entry.last_round, entry.rounds, shape});
  }
  const int64_t kept = max_kernels_ / 4 * 3;
  const int64_t excess = std::max<int64_t>(0, std::ssize(candidates) - kept);
  std::nth_element(candidates.begin(), candidates.begin() + excess, candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::pair(a.last_round, a.rounds) < std::pair(b.last_round, b.rounds);
                   });
  for (int64_t i = 0; i < excess; ++i) {
    entries_.erase(candidates[i].shape);
  }
  num_evicted_ += excess;
  num_held_ = std::ssize(entries_);
  ++round_;
}

GemmCounts GemmCache::counts() {
  MutexLock lock(mutex_);
  return {.generated = num_generated_, .held = std::ssize(entries_), .evicted = num_evicted_};
}

}  // namespace attention
