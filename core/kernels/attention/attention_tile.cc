#include "core/kernels/attention/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "core/kernels/attention/head_tiles.h"
#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/pack_keys.h"
#include "core/kernels/attention/tile_logits.h"
#include "core/kernels/attention/tile_products.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/weight_rows.h"

namespace attention {
namespace {

SectionRange SectionsOf(const RowKeys& row_keys) {
  const KeyRange& any = row_keys.any;
  return any.begin < any.end
             ? SectionRange{any.begin / kKeySection, (any.end - 1) / kKeySection + 1}
             : SectionRange{};
}

/// One query tile. The private functions are the parts of AttendTo, in their order.
class AttentionTile {
 public:
  AttentionTile(const QueryTile& tile, const TileMemory& memory);

  /// Attends to all keys: leaves the sums over all key sections.
  void AttendToKeys();
  /// Attends to the keys of one section: leaves the sums over them.
  void AttendToSection(int64_t section);
  /// Adds the sums over later keys to `sums`.
  void AddSums(const TileSums& later, const TileSums& sums) const;
  /// The sums that are written: over all keys, or over one section.
  const TileSums& sums() const { return sums_; }
  void WriteOutput() const;
  void WriteLogSumExp() const;
  /// REQUIRES: AttendToKeys, with softmax. Ends the use of the accumulator and the row sums.
  void WriteWeights();

 private:
  void AttendTo(int64_t first_key, int64_t end_key);
  KeyTile& BeginKeyTile(int64_t index, int64_t first_key);

  void PackKeys(const KeyTile& keys) const;
  void Score(const KeyTile& keys) const;
  void HideKeys(const KeyTile& keys, const RowGroup& group) const;
  void Normalise(const KeyTile& keys, const RowGroup& group, float* row_sum, bool rounds);
  void AddValues(const KeyTile& keys) const;

  float SinkTerm(int64_t row) const { return logits_.SinkTerm(row, row_max_[row]); }

  // Fixed for the tile.
  const TileSetup setup_;
  const FlashSequence& sequence_;
  const AttentionOptions& options_;
  const TileBuffers buffers_;
  const RowKeys row_keys_;
  const TileProducts products_;
  const TileLogits logits_;
  // The key tiles that are computed now.
  KeyTile key_tiles_[kFewRowTilesAtOnce];
  // Over the keys of the section so far: of each row, the maximum of its scores and the sum of its
  // probabilities. The accumulator has the sums of values.
  bool is_first_ = true;  // no key was taken
  float row_max_[kQueryTile];
  float row_sum_[kQueryTile];
  const TileSums sums_;
};

AttentionTile::AttentionTile(const QueryTile& tile, const TileMemory& memory)
    : setup_(tile),
      sequence_(setup_.sequence),
      options_(sequence_.options),
      buffers_(setup_, memory),
      row_keys_(setup_),
      products_(setup_, buffers_),
      logits_(setup_),
      sums_{buffers_.accumulator, row_max_, row_sum_} {
  if (setup_.expands()) {
    buffers_.expanded->Begin(tile.packed, sequence_.kv_len());
  }
  if (row_keys_.any.begin < row_keys_.any.end) {
    ReadQuery(setup_, buffers_);
  }
}

void AttentionTile::AttendToKeys() {
  const SectionRange sections = SectionsOf(row_keys_);
  if (sections.end - sections.begin <= 1) {
    return AttendToSection(sections.begin);
  }
  const int64_t width = setup_.plan.value_width();
  const TileSums total = TileSums::In(buffers_.total, setup_.rows, width);
  ClearSums(setup_.rows, width, total);
  for (int64_t section = sections.begin; section < sections.end; ++section) {
    AttendToSection(section);
    AddSums(sums_, total);
  }
  CopySums(total, setup_.rows, width, sums_);
}

void AttentionTile::AttendToSection(int64_t section) {
  std::fill_n(row_max_, setup_.rows, kMinusInfinity);
  std::fill_n(row_sum_, setup_.rows, 0.0f);
  is_first_ = true;
  const KeyRange& any = row_keys_.any;
  const int64_t end = std::min(any.end, (section + 1) * kKeySection);
  const int64_t step = setup_.tiles_at_once * kKeyTile;
  int64_t key = std::max(any.begin / kKeyTile * kKeyTile, section * kKeySection);
  for (; key < end; key += step) {
    AttendTo(key, std::min(key + step, end));
  }
  if (is_first_) {
    ClearSums(setup_.rows, setup_.plan.value_width(), sums_);
  }
}

void AttentionTile::AddSums(const TileSums& later, const TileSums& sums) const {
  const int64_t width = setup_.plan.value_width();
  return IsSoftmax(options_.similarity)
             ? AddSoftmaxSums(later, setup_.rows, width, setup_.scale_log2e, sums)
             : AddWeightSums(later, setup_.rows, width, sums);
}

/// Begins the key tile from `first_key` on, in the memory of tile `index` of those taken together.
KeyTile& AttentionTile::BeginKeyTile(int64_t index, int64_t first_key) {
  KeyTile& keys = key_tiles_[index];
  const int64_t offset = index * kFewRows * kScoreStride;
  keys.first_key = first_key;
  keys.scores = buffers_.scores + offset;
  keys.probabilities = buffers_.probabilities + offset;
  keys.MakeGroups(setup_, row_keys_);
  return keys;
}

/// Takes the key tiles from `first_key` up to `end_key`, at most tiles_at_once.
void AttentionTile::AttendTo(int64_t first_key, int64_t end_key) {
  int64_t count = 0;
  for (int64_t key = first_key; key < end_key; key += kKeyTile, ++count) {
    Score(BeginKeyTile(count, key));
  }
  for (const KeyTile& keys : std::span(key_tiles_, count)) {
    if (keys.num_groups == 0) {
      continue;
    }
    for (const RowGroup& group : keys.groups()) {
      Normalise(keys, group, row_sum_, /*rounds=*/true);
    }
    AddValues(keys);
    is_first_ = false;
  }
}

/// Packs the columns that the groups need, and prefetches a key block ahead.
void AttentionTile::PackKeys(const KeyTile& keys) const {
  KeyRange columns{kKeyTile, 0};
  for (const RowGroup& group : keys.groups()) {
    columns = {std::min(columns.begin, group.rectangle.begin),
               std::max(columns.end, group.rectangle.end)};
  }
  const int64_t end = std::min(keys.first_key + columns.end, sequence_.kv_len());
  for (int64_t key = keys.first_key + columns.begin; key < end; key += kKeyBlock) {
    const int64_t next = key + kKeyBlock;
    UpcomingRows upcoming = RowsOf(sequence_, setup_.tile.kv_head(), {next, next + kKeyBlock});
    while (upcoming.part < upcoming.count) {
      PrefetchSome(&upcoming);
    }
    attention::PackKeys({.sequence = &sequence_,
                         .plan = &setup_.plan,
                         .rotations = setup_.tile.rotations->key,
                         .first_key = key,
                         .count = std::min(kKeyBlock, end - key),
                         .kv_head = setup_.tile.kv_head(),
                         .page = setup_.tile.packed.pages[0],
                         .page_key = keys.first_key,
                         .key_step = setup_.key_step},
                        static_cast<std::byte*>(buffers_.values_copy));
  }
}

void AttentionTile::Score(const KeyTile& keys) const {
  if (setup_.tile.packs_keys) {
    PackKeys(keys);
  }
  if (setup_.expands()) {
    int64_t end = 0;
    for (const RowGroup& group : keys.groups()) {
      end = std::max(end, group.rectangle.end);
    }
    products_.ExpandKeyValues(keys, end);
  }
  ForRectangles(keys, setup_.rows, kKeyBlock,
                [&](const Rectangle& rectangle) { products_.Score(keys, rectangle); });
}

/// Sets the scores of keys that are hidden from the group's rows to -infinity, but for columns from
/// visible_end on.
void AttentionTile::HideKeys(const KeyTile& keys, const RowGroup& group) const {
  const Visibility visibility = sequence_.visibility();
  const Rectangle& rectangle = group.rectangle;
  if (!visibility.has_holes() && group.common_begin <= rectangle.begin) {
    return;
  }
  for (int64_t r = rectangle.first_row; r < rectangle.first_row + rectangle.rows; ++r) {
    const KeyRange range{keys.first_key + rectangle.begin, keys.first_key + keys.visible_end[r]};
    if (range.begin < range.end) {
      visibility.Hide(setup_.HeadOf(r), setup_.RowOf(r), range, keys.ScoreRow(r) + rectangle.begin);
    }
  }
}

/// Raw scores of the group's rows become probabilities relative to the running maximum, or weights.
/// Adds them to `row_sum`. With `rounds` they are written as the product with the values needs
/// them.
void AttentionTile::Normalise(const KeyTile& keys, const RowGroup& group, float* row_sum,
                              bool rounds) {
  const Rectangle& rectangle = group.rectangle;
  const int64_t r = rectangle.first_row;
  float* scores = keys.ScoreRow(r) + rectangle.begin;
  if (setup_.shapes_logits) {
    logits_.Shape(keys, rectangle);
  }
  HideKeys(keys, group);
  int64_t counted_from_begin[kQueryTile];
  const int64_t* visible_end = keys.visible_end + r;
  if (rectangle.begin > 0) {
    for (int64_t i = 0; i < rectangle.rows; ++i) {
      counted_from_begin[i] = std::max<int64_t>(visible_end[i] - rectangle.begin, 0);
    }
    visible_end = counted_from_begin;
  }
  if (!IsSoftmax(options_.similarity)) {
    return setup_.kernels.weights({.scores = scores,
                                   .stride = kScoreStride,
                                   .rows = rectangle.rows,
                                   .cols = rectangle.end - rectangle.begin,
                                   .visible_end = visible_end,
                                   .row_sum = row_sum + r});
  }
  const int64_t key = keys.first_key + rectangle.begin;
  const bool scales_values = rounds && setup_.int8() && rectangle.begin < rectangle.end;
  setup_.kernels.softmax(
      {.processor = setup_.processor,
       .scores = scores,
       .stride = kScoreStride,
       .rows = rectangle.rows,
       .cols = rectangle.end - rectangle.begin,
       .visible_end = visible_end,
       .scale_log2e = setup_.scale_log2e,
       .row_max = row_max_ + r,
       .row_sum = row_sum + r,
       .accumulator = buffers_.accumulator + r * setup_.plan.value_width(),
       .accumulator_cols = setup_.plan.value_width(),
       .is_first = is_first_,
       .bf16_probabilities = rounds && setup_.bf16()
                                 ? keys.probabilities + r * kScoreStride + rectangle.begin
                                 : nullptr,
       .value_scales =
           scales_values ? setup_.PageOf(key).value_scales + setup_.KeysBefore(key) : nullptr,
       .largest = buffers_.largest + r,
       .upcoming = setup_.tile.upcoming});
}

/// Adds the values of the key tile, weighted by the probabilities, to the accumulator.
void AttentionTile::AddValues(const KeyTile& keys) const {
  const int64_t width = setup_.plan.value_width();
  const bool hides_non_finite = !setup_.int8() && keys.HidesNonFinite(setup_);
  for (const RowGroup& group : keys.groups()) {
    const Rectangle& rectangle = group.rectangle;
    if (is_first_ && rectangle.begin == rectangle.end) {
      std::fill_n(buffers_.accumulator + rectangle.first_row * width, rectangle.rows * width, 0.0f);
    }
    if (hides_non_finite) {
      products_.AddVisibleValues(keys, rectangle, !is_first_);
    } else if (setup_.int8()) {
      products_.AddValues(keys, rectangle, !is_first_);
    }
  }
  if (hides_non_finite || setup_.int8()) {
    return;
  }
  ForRectangles(keys, setup_.rows, kSumChain, [&](const Rectangle& rectangle) {
    const bool continues = keys.shared_end >= kSumChain && rectangle.begin > 0;
    products_.AddValues(keys, rectangle, !is_first_ || continues);
  });
}

void AttentionTile::WriteOutput() const {
  float denominators[kQueryTile];
  std::copy_n(row_sum_, setup_.rows, denominators);
  for (int64_t r = 0; r < setup_.rows && !options_.sinks.empty(); ++r) {
    denominators[r] += row_sum_[r] == 0 ? 0 : SinkTerm(r);
  }
  StoreOutput(setup_, buffers_, denominators);
}

void AttentionTile::WriteLogSumExp() const {
  for (int64_t r = 0; r < setup_.rows; ++r) {
    const double log2_sum =
        logits_.ExponentOf(r, row_max_[r]) + std::log2(static_cast<double>(row_sum_[r]));
    // Finite, since -infinity is that of a row without keys.
    const double sum =
        std::clamp<double>(log2_sum * std::numbers::ln2, std::numeric_limits<float>::lowest(),
                           std::numeric_limits<float>::max());
    sequence_.log_sum_exp[setup_.HeadOf(r) * sequence_.query.tokens + setup_.RowOf(r)] =
        row_sum_[r] == 0 ? kMinusInfinity : static_cast<float>(sum);
  }
}

/// A second pass over the scores, in which the maxima are known: the weights of each key tile are
/// written in f32, whatever the compute type, and divided by their sum at the end.
void AttentionTile::WriteWeights() {
  float row_sum[kQueryTile] = {};
  WeightRows weights(setup_, row_keys_);
  is_first_ = true;  // nothing is rescaled
  for (int64_t key = row_keys_.any.begin / kKeyTile * kKeyTile; key < row_keys_.any.end;
       key += kKeyTile) {
    const KeyTile& keys = BeginKeyTile(0, key);
    if (keys.num_groups == 0) {
      continue;
    }
    Score(keys);
    for (const RowGroup& group : keys.groups()) {
      Normalise(keys, group, row_sum, /*rounds=*/false);
    }
    weights.Take(keys);
  }
  for (int64_t r = 0; r < setup_.rows; ++r) {
    weights.Finish(r, row_sum[r] + SinkTerm(r));
  }
}

/// Writes what the sequence requests, from the sums over all keys.
void Write(const QueryTile& tile, AttentionTile& attention) {
  if (tile.with_output) {
    attention.WriteOutput();
  }
  if (tile.sequence->log_sum_exp != nullptr) {
    attention.WriteLogSumExp();
  }
  if (tile.sequence->wants_weights()) {
    attention.WriteWeights();
  }
}

}  // namespace

SectionRange SectionsOf(const QueryTile& tile) { return SectionsOf(RowKeys(TileSetup(tile))); }

void AttendTile(const QueryTile& tile, const TileMemory& memory) {
  AttentionTile attention(tile, memory);
  if (tile.with_output || tile.sequence->log_sum_exp != nullptr ||
      IsSoftmax(tile.sequence->options.similarity)) {
    attention.AttendToKeys();
  }
  Write(tile, attention);
}

void AttendToSection(const QueryTile& tile, int64_t section, const TileSums& sums,
                     const TileMemory& memory) {
  AttentionTile attention(tile, memory);
  attention.AttendToSection(section);
  CopySums(attention.sums(), tile.rows(), tile.plan->value_width(), sums);
}

void MergeSections(const QueryTile& tile, std::span<const TileSums> sections,
                   const TileMemory& memory) {
  AttentionTile attention(tile, memory);
  const TileSums& total = sections.front();
  for (const TileSums& section : sections.subspan(1)) {
    attention.AddSums(section, total);
  }
  CopySums(total, tile.rows(), tile.plan->value_width(), attention.sums());
  Write(tile, attention);
}

}  // namespace attention
