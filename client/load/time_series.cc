#include "client/load/time_series.h"

#include <array>
#include <utility>

namespace attention {

void TimeSlice::Merge(const TimeSlice& other) {
  due += other.due;
  not_sent += other.not_sent;
  sent += other.sent;
  answers += other.answers;
  tokens += other.tokens;
  errors += other.errors;
  latency_ns.Merge(other.latency_ns);
}

absl::Duration TimeSeries::SliceFor(absl::Duration duration) {
  constexpr std::array kMilliseconds = {1,      2,      5,       10,      20,      50,       100,
                                        200,    500,    1'000,   2'000,   5'000,   10'000,   20'000,
                                        30'000, 60'000, 120'000, 300'000, 600'000, 3'600'000};
  if (duration == absl::InfiniteDuration()) {
    return absl::Milliseconds(10);
  }
  for (const int milliseconds : kMilliseconds) {
    const absl::Duration slice = absl::Milliseconds(milliseconds);
    if (duration <= slice * (milliseconds < 1000 ? 120 : kMaxSlices)) {
      return slice;
    }
  }
  return absl::Hours(24);
}

TimeSlice& TimeSeries::At(absl::Duration since_start) {
  while (since_start >= slice_ * kMaxSlices) {
    Coarsen();
  }
  const auto index = static_cast<size_t>(since_start / slice_);
  if (index >= slices_.size()) {
    slices_.resize(index + 1);
  }
  return slices_[index];
}

void TimeSeries::Coarsen() {
  slice_ *= 2;
  const size_t halved = (slices_.size() + 1) / 2;
  for (size_t i = 1; i < slices_.size(); ++i) {
    if (i % 2 == 1) {
      slices_[i / 2].Merge(slices_[i]);
    } else {
      slices_[i / 2] = std::move(slices_[i]);
    }
  }
  slices_.resize(halved);
}

void TimeSeries::Merge(const TimeSeries& other) {
  while (slice_ < other.slice_) {
    Coarsen();
  }
  for (size_t i = 0; i < other.slices_.size(); ++i) {
    At(static_cast<int64_t>(i) * other.slice_).Merge(other.slices_[i]);
  }
}

}  // namespace attention
