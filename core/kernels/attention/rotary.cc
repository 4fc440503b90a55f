#include "core/kernels/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace attention {
namespace {

using Rotation = std::complex<double>;

/// A position is rotated by the start of its block, then by its place in the block: two sines
/// cheaply make any.
constexpr int64_t kBlock = 64;

std::vector<double> Frequencies(const Rotary& rotary, int64_t dim) {
  if (rotary.frequencies != nullptr) {
    return {rotary.frequencies, rotary.frequencies + dim / 2};
  }
  std::vector<double> frequencies(dim / 2);
  for (int64_t i = 0; i < dim / 2; ++i) {
    double& frequency = frequencies[i];
    frequency = std::pow(rotary.base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    if (rotary.scaling == Rotary::Scaling::kLinear) {
      frequency /= rotary.factor;
    } else if (rotary.scaling == Rotary::Scaling::kLlama3) {
      frequency = ScaleAsLlama3(frequency, rotary);
    }
  }
  return frequencies;
}

/// Rotations of every frequency at `position`.
void Rotate(const std::vector<double>& frequencies, int64_t position, Rotation* to) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    to[i] = std::polar(1.0, static_cast<double>(position) * frequencies[i]);
  }
}

int64_t BlockOf(int64_t position) {
  return position >= 0 ? position / kBlock : -((-position + kBlock - 1) / kBlock);
}

}  // namespace

double ScaleAsLlama3(double frequency, const Rotary& scaling) {
  const double rotations =
      static_cast<double>(scaling.original_max_positions) * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp(
      (rotations - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
      0.0, 1.0);
  return frequency * (kept + (1 - kept) / scaling.factor);
}

RotaryTable::RotaryTable(const Rotary& rotary, int64_t head_dim, int64_t first_position,
                         int64_t count)
    : dim_(rotary.dim == 0 ? head_dim : rotary.dim), values_(count * dim_) {
  const std::vector<double> frequencies = Frequencies(rotary, dim_);
  const int64_t pairs = dim_ / 2;
  std::vector<bool> is_known(kBlock, false);
  std::vector<Rotation> places(kBlock * pairs);
  std::vector<Rotation> block(pairs);
  int64_t current_block = 0;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t position = first_position + rotary.position_offset + row;
    if (row == 0 || BlockOf(position) != current_block) {
      current_block = BlockOf(position);
      Rotate(frequencies, current_block * kBlock, block.data());
    }
    const int64_t place = position - current_block * kBlock;
    Rotation* rotation = places.data() + place * pairs;
    if (!is_known[place]) {
      Rotate(frequencies, place, rotation);
      is_known[place] = true;
    }
    float* to = values_.data() + row * dim_;
    for (int64_t i = 0; i < pairs; ++i) {
      const double cosine =
          block[i].real() * rotation[i].real() - block[i].imag() * rotation[i].imag();
      const double sine =
          block[i].real() * rotation[i].imag() + block[i].imag() * rotation[i].real();
      to[i] = static_cast<float>(rotary.magnitude * cosine);
      to[pairs + i] = static_cast<float>(rotary.magnitude * sine);
    }
  }
}

}  // namespace attention
