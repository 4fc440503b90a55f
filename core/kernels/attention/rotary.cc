#include "core/kernels/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

using Rotation = std::complex<double>;

/// A position is rotated by the start of its block of positions, then by its offset in the block,
/// so that few sines are computed.
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

/// Computes the rotations of all frequencies at `position`.
void Rotate(const std::vector<double>& frequencies, int64_t position, Rotation* to) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    to[i] = std::polar(1.0, static_cast<double>(position) * frequencies[i]);
  }
}

size_t HashOf(const Rotary& rotary) {
  const absl::Span<const double> given(rotary.frequencies,
                                       rotary.frequencies == nullptr ? 0 : rotary.dim / 2);
  return absl::HashOf(rotary.dim, rotary.base, rotary.interleaved, rotary.scaling, rotary.factor,
                      rotary.low_freq_factor, rotary.high_freq_factor,
                      rotary.original_max_positions, rotary.magnitude, given);
}

int64_t BlockOf(int64_t position) {
  return position >= 0 ? position / kBlock : -CeilDiv(-position, kBlock);
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
  const int64_t num_offsets = std::min(kBlock, count);
  std::vector<bool> is_known(num_offsets, false);
  std::vector<Rotation> offset_rotations(num_offsets * pairs);
  std::vector<Rotation> block(pairs);
  int64_t current_block = 0;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t position = first_position + rotary.position_offset + row;
    if (row == 0 || BlockOf(position) != current_block) {
      current_block = BlockOf(position);
      Rotate(frequencies, current_block * kBlock, block.data());
    }
    // Rows with the same slot have the same offset in their blocks.
    const int64_t slot = row % kBlock;
    Rotation* rotation = offset_rotations.data() + slot * pairs;
    if (!is_known[slot]) {
      Rotate(frequencies, position - current_block * kBlock, rotation);
      is_known[slot] = true;
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

RotaryTables::Kind& RotaryTables::KindOf(const Rotary& wanted) {
  const bool is_given = wanted.frequencies != nullptr;
  std::vector<Kind*>& kinds = kinds_by_hash_[HashOf(wanted)];
  for (Kind* const kind : kinds) {
    Rotary found = kind->rotary;
    found.frequencies = wanted.frequencies;
    if (found == wanted && kind->is_given == is_given &&
        (!is_given ||
         std::equal(kind->frequencies.begin(), kind->frequencies.end(), wanted.frequencies))) {
      return *kind;
    }
  }
  Kind& kind = kinds_.emplace_back(Kind{wanted, Frequencies(wanted, wanted.dim), is_given});
  kind.rotary.frequencies = kind.frequencies.data();
  kinds.push_back(&kind);
  return kind;
}

std::vector<const RotaryTable*> RotaryTables::Get(std::span<const Range> ranges, ThreadPool& pool) {
  struct Missing {
    const Rotary* rotary;
    int64_t first_position;
    int64_t count;
    RotaryTable* table;
  };
  std::vector<Missing> missing;
  std::vector<const RotaryTable*> result;
  result.reserve(ranges.size());
  Rotary last;
  Kind* kind = nullptr;
  for (const Range& range : ranges) {
    Rotary wanted = *range.rotary;
    wanted.dim = wanted.dim == 0 ? range.head_dim : wanted.dim;
    wanted.position_offset = 0;
    if (kind == nullptr || wanted != last) {  // the sequences of a model have equal rotations
      kind = &KindOf(wanted);
      last = wanted;
    }
    const int64_t first = range.first_position + range.rotary->position_offset;
    std::unique_ptr<RotaryTable>& table = kind->tables[{first, range.count}];
    if (table == nullptr) {
      table = std::make_unique<RotaryTable>();
      missing.push_back({&kind->rotary, first, range.count, table.get()});
    }
    result.push_back(table.get());
  }
  pool.ParallelFor(std::ssize(missing), [&](int64_t i, int /*worker*/) {
    const Missing& made = missing[i];
    *made.table = RotaryTable(*made.rotary, made.rotary->dim, made.first_position, made.count);
  });
  return result;
}

}  // namespace attention
