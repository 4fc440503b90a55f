#include "tests/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/huge_pages.h"
#include "core/runtime/thread_pool.h"
#include "core/tensor/seeded.h"
#include "core/tensor/tensor.h"
#include "tests/bench/median.h"

namespace attention::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLeastTimes = 7;

double NanosecondsOf(const std::function<void()>& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

class PeakKernel {
 public:
  explicit PeakKernel(Dtype dtype)
      : a_(SeededTensor(1, dtype, {kM, kK})),
        b_(SeededTensor(2, dtype, {kK, kN})),
        c_(Dtype::kF32, {kM, kN}),
        gemm_(FindGemm(
            {.m = kM, .n = kN, .k = kK, .lda = kK, .ldb = kN, .ldc = kN, .dtype = dtype})) {}

  void Run() {
    for (int i = 0; i < kRepeats; ++i) {
      gemm_.Run(a_.data(), b_.data(), c_.as<float>());
    }
  }

  static constexpr double kFlop = 2.0 * 64 * 64 * 512 * 50;

 private:
  static constexpr int64_t kM = 64, kN = 64, kK = 512;
  static constexpr int kRepeats = 50;
  Tensor a_, b_, c_;
  const KernelLease lease_;
  const Gemm& gemm_;
};

/// Adds up every word, each thread its part: nothing but reading.
class PlainRead {
 public:
  PlainRead(double bytes, int threads)
      : pool_(threads),
        words_(static_cast<int64_t>(bytes) / kChunk * (kChunk / 8)),
        sums_(threads) {
    // In huge pages, as caches are.
    size_bytes_ = (words_ * 8 / kHugePageBytes + 1) * kHugePageBytes;
    first_ = MapHugePages(size_bytes_);
    std::memset(first_, 1, size_bytes_);
  }

  ~PlainRead() { UnmapHugePages(first_, size_bytes_); }
  PlainRead(const PlainRead&) = delete;
  PlainRead& operator=(const PlainRead&) = delete;

  void Run() {
    pool_.ParallelFor(words_ / (kChunk / 8), [this](int64_t i, int worker) {
      sums_[worker] += Sum(reinterpret_cast<const uint64_t*>(first_) + i * (kChunk / 8));
    });
  }

 private:
  static constexpr int64_t kChunk = 1 << 18;

  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3"))) static uint64_t Sum(
      const uint64_t* words) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < kChunk / 8; ++i) {
      sum += words[i];
    }
    return sum;
  }

  ThreadPool pool_;
  int64_t words_;
  std::vector<uint64_t> sums_;
  size_t size_bytes_ = 0;
  std::byte* first_ = nullptr;
};

}  // namespace

double ReadNs(double bytes, int threads) {
  PlainRead read(bytes, threads);
  read.Run();
  std::vector<double> times_ns;
  const auto end = Clock::now() + std::chrono::milliseconds(100);
  while (Clock::now() < end || times_ns.size() < kLeastTimes) {
    times_ns.push_back(NanosecondsOf([&] { read.Run(); }));
  }
  return MedianOf(times_ns);
}

Measurement Measure(const MeasureOptions& options, const std::function<void()>& computation) {
  std::optional<PlainRead> read;
  if (options.bytes > 0) {
    read.emplace(options.bytes, options.threads);
  }
  PeakKernel peak(ComputeDtype(options.dtype));
  std::vector<double> case_ns;
  std::vector<double> peak_ns;
  std::vector<double> read_ns;
  const auto time_others = [&] {
    peak_ns.push_back(NanosecondsOf([&] { peak.Run(); }));
    if (read.has_value()) {
      read_ns.push_back(NanosecondsOf([&] { read->Run(); }));
    }
  };
  computation();
  peak.Run();
  for (int i = 0; options.alone && i < kLeastTimes; ++i) {
    time_others();
  }
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  while (Clock::now() < end || case_ns.size() < kLeastTimes) {
    if (!options.alone) {
      time_others();
    }
    case_ns.push_back(NanosecondsOf(computation));
  }
  Measurement m;
  m.median_ns = MedianOf(case_ns);
  m.gflops = options.flop / m.median_ns;
  m.peak_gflops = PeakKernel::kFlop / MedianOf(peak_ns) * options.threads;
  m.share = m.gflops / m.peak_gflops;
  if (read.has_value()) {
    m.gb_per_s = options.bytes / m.median_ns;
    m.read_gb_per_s = options.bytes / MedianOf(read_ns);
    m.share = m.gb_per_s / m.read_gb_per_s;
  }
  return m;
}

}  // namespace attention::bench
