#include "tests/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/kernels/onednn/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/tensor/seeded.h"
#include "core/tensor/tensor.h"

namespace attention::bench {
namespace {

using Clock = std::chrono::steady_clock;

double NanosecondsOf(const std::function<void()>& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
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
  const Gemm& gemm_;
};

}  // namespace

Measurement Measure(const MeasureOptions& options, const std::function<void()>& computation) {
  PeakKernel peak(ComputeDtype(options.dtype));
  std::vector<double> case_ns;
  std::vector<double> peak_ns;
  computation();
  peak.Run();
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  while (Clock::now() < end || case_ns.size() < 7) {
    peak_ns.push_back(NanosecondsOf([&] { peak.Run(); }));
    case_ns.push_back(NanosecondsOf(computation));
  }
  Measurement m;
  m.median_ns = Median(case_ns);
  m.gflops = options.flop / m.median_ns;
  m.peak_gflops = PeakKernel::kFlop / Median(peak_ns) * options.threads;
  m.share = m.gflops / m.peak_gflops;
  return m;
}

}  // namespace attention::bench
