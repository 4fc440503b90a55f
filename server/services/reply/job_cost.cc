#include "server/services/reply/job_cost.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/flash_attention.h"
#include "core/kernels/tile/key_block.h"
#include "core/runtime/round_up.h"
#include "server/services/plan/saturating.h"
#include "server/services/reply/attend_reply.h"
#include "server/services/reply/prefix_rows.h"
#include "server/sessions/session.h"

namespace attention {
namespace {

// The memory of each sequence, with or without rows, in plan, description, job and reply.
constexpr int64_t kSequenceBytes =
    sizeof(PlannedSequence) + sizeof(JobSequence) + sizeof(int64_t) + sizeof(SequenceRows);
// The memory of a text besides its tokens.
constexpr int64_t kTextBytes = sizeof(TokenizedText);

// Costs are counted in *pairs*: a pair is the work for one query row of a head and one key that it
// attends to. Other work counts as the number of pairs that would be computed in its time.

// The cost of reading, converting and storing a row or a key of a head.
constexpr double kPairsPerRow = 30;
// The cost of clearing a row of a cache's key block, before the first key of the block is written.
constexpr double kPairsPerClearedRow = 15;

struct HeadWidths {
  int64_t key = 0;
  int64_t value = 0;
};

// Returns the widths of a head in memory.
HeadWidths HeadWidthsOf(const AttendPlan& plan) {
  const BatchKey& key = plan.key;
  if (plan.model == nullptr || key.is_stack()) {
    return {AttentionPlan::PaddedWidth(key.head_dim),
            AttentionPlan::PaddedWidth(key.value_head_dim)};
  }
  const MultiHeadAttentionShape& shape = plan.model->layer(key.layer).shape();
  return {AttentionPlan::PaddedWidth(shape.head_dim),
          AttentionPlan::PaddedWidth(shape.value_head_dim)};
}

// Returns the cost of the sums of linear attention: each row reads them, each key is added to them,
// and they are set to zero for each sequence.
double LinearPairs(const AttendPlan& plan, double rows, double keys) {
  if (plan.options.shared.similarity != Similarity::kLinear) {
    return 0;
  }
  const HeadWidths widths = HeadWidthsOf(plan);
  const double sums = static_cast<double>(widths.key * widths.value) /
                      static_cast<double>(widths.key + widths.value);
  return sums * (rows + keys + kPairsPerRow);
}

// Returns for how many of the `keys` the scores of a row are computed. With a window these are
// fewer: the keys of the window, and those to which only other rows of the same tile attend.
double KeysWithinWindow(const AttendPlan& plan, double keys) {
  const AttentionOptions& o = plan.options.shared;
  const v1::AttentionOptions& wire = *plan.options.wire;
  const bool has_right = o.causal || o.window_right > 0;
  if (o.window == 0 || !has_right || wire.sequences_size() > 0 || wire.global_tokens_size() > 0) {
    return keys;
  }
  constexpr double kTile = kQueryTile + 2 * kKeyStep;
  const auto right = static_cast<double>(o.causal ? 0 : o.window_right);
  return std::min(keys,
                  static_cast<double>(o.window) + right + static_cast<double>(o.prefix) + kTile);
}

// Returns the cost of the weights that are returned: a second pass over the scores, and
// for the k largest of a row one insertion into a heap for each weight that was among the k largest
// so far. Measured for heads of 64, about: 1 of 2048 weights 2 times the time without, 100 of them
// 7 times, all 2048 of them 40 times; all weights without a choice 3 times.
double WeightPairs(const AttendPlan& plan, int64_t index, double rows, double attended) {
  const v1::AttentionOptions& wanted = *plan.options.wire;
  if (wanted.weights_top_k() == 0) {
    return wanted.return_weights() ? 2 * attended : 0;
  }
  const auto keys = static_cast<double>(plan.KeysOf(plan.sequences[index]));
  const auto k = std::min(static_cast<double>(wanted.weights_top_k()), keys);
  if (k == 0) {
    return 0;
  }
  const HeadWidths widths = HeadWidthsOf(plan);
  const double pairs_per_level = 384.0 / static_cast<double>(widths.key + widths.value);
  const double insertions = k * (1 + std::log(keys / k));
  return attended + rows * insertions * pairs_per_level * (1 + std::log2(k));
}

// Returns the cost of the pairs of a sequence and of its weights, without what each row and each
// key costs by itself.
double AttendedPairsOf(const AttendPlan& plan, int64_t index) {
  const PlannedSequence& sequence = plan.sequences[index];
  const auto rows = static_cast<double>(sequence.query.rows - plan.TakenOf(index));
  const auto keys = static_cast<double>(RoundUp(plan.cached_len + sequence.key.rows, kKeyStep));
  const double attended =
      std::min(plan.options.shared.causal ? rows * (keys - std::min(rows, keys) / 2) : rows * keys,
               rows * KeysWithinWindow(plan, keys));
  return attended + WeightPairs(plan, index, rows, attended);
}

// Returns how many rows of key blocks are cleared for the new keys of a cached sequence.
double ClearedRows(int64_t cached_len, int64_t new_keys) {
  return static_cast<double>(RoundUp(cached_len + new_keys, kKeyBlock) -
                             RoundUp(cached_len, kKeyBlock));
}

// Returns the whole cost of a sequence.
double PairsOf(const AttendPlan& plan, int64_t index) {
  const PlannedSequence& sequence = plan.sequences[index];
  const int64_t taken = plan.TakenOf(index);
  const bool is_cached = plan.caches != nullptr || plan.prefix.table != nullptr;
  const int64_t new_keys = sequence.key.rows - taken;
  const auto rows = static_cast<double>(sequence.query.rows - taken);
  const auto stored = static_cast<double>(is_cached ? new_keys : RoundUp(new_keys, kKeyBlock));
  const double cleared =
      is_cached ? ClearedRows(plan.cached_len + taken, new_keys) * kPairsPerClearedRow : 0;
  // Without a model, several heads may share the keys of one.
  const double key_share = plan.model != nullptr ? 1
                                                 : static_cast<double>(plan.key.num_kv_heads) /
                                                       static_cast<double>(plan.key.num_heads);
  return AttendedPairsOf(plan, index) +
         kPairsPerRow * (rows + key_share * stored + static_cast<double>(taken)) +
         key_share * cleared + LinearPairs(plan, rows, stored);
}

// Returns the sum of the pairs of all sequences with work.
template <typename Pairs>
double SumOf(const AttendPlan& plan, Pairs pairs_of) {
  double pairs = 0;
  for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
    pairs += plan.HasWork(plan.sequences[i]) ? pairs_of(plan, i) : 0;
  }
  return pairs;
}

int64_t MemoryRows(const JobDescription& description) {
  int64_t rows = 0;
  for (const JobSequence& sequence : description.sequences) {
    rows += sequence.kv_len;
  }
  return rows;
}

int64_t LogitRows(const AttendPlan& plan, const JobDescription& description) {
  return plan.wanted == ModelOutput::kLogits       ? description.tokens + CachedTokens(plan)
         : plan.wanted == ModelOutput::kLastLogits ? std::ssize(description.sequences)
                                                   : 0;
}

// Returns by how much the largest packed head exceeds the memory that FlashAttention takes for any
// keys and values of their size: a head of many keys cannot be packed in parts.
int64_t LargeHeadBytes(const AttendPlan& plan) {
  const HeadWidths widths = HeadWidthsOf(plan);
  const BatchKey& key = plan.key;
  int64_t most = 0;
  for (const PlannedSequence& sequence : plan.sequences) {
    const int64_t own =
        SaturatingProduct({FlashAttention::kMostPadding, sequence.key.rows, key.num_kv_heads,
                           key.head_dim + key.value_head_dim, int64_t{sizeof(float)}});
    const int64_t packed =
        SaturatingProduct({sequence.key.rows, widths.key + widths.value, int64_t{sizeof(float)}});
    most = std::max(most, packed - std::max(own, FlashAttention::kPackedBytes));
  }
  return plan.model == nullptr && plan.caches == nullptr ? most : 0;
}

// Returns the memory of what the sequences take from the prefix cache, besides pages, and of the
// hidden states that PrefixRows takes from it and gives to it.
int64_t PrefixBytes(const AttendPlan& plan) {
  return plan.prefix.table == nullptr
             ? 0
             : std::ssize(plan.sequences) * plan.prefix.BytesPerSequence() +
                   std::ssize(plan.ids) * plan.model->info().d_model * int64_t{sizeof(float)};
}

// Returns the operations where rows attend to `pairs` keys in total.
double FlopsWith(const AttendPlan& plan, const JobDescription& description, double pairs) {
  const BatchKey& key = plan.key;
  if (plan.model != nullptr) {
    const int64_t memory_rows = key.has_memory ? MemoryRows(description) : 0;
    return key.is_stack()
               ? plan.model->Flops(description.tokens, pairs, LogitRows(plan, description),
                                   memory_rows)
               : plan.model->layer(key.layer).Flops(description.tokens, pairs, memory_rows);
  }
  const HeadWidths widths = HeadWidthsOf(plan);
  return 2.0 * static_cast<double>(key.num_heads * (widths.key + widths.value)) * pairs;
}

}  // namespace

int64_t PlannedBytes(const AttendPlan& plan) {
  int64_t bytes =
      std::ssize(plan.sequences) * kSequenceBytes + PrefixBytes(plan) + LargeHeadBytes(plan) +
      plan.NumTables() * static_cast<int64_t>(sizeof(ScoreTable)) + SizeOfLists(plan.options) +
      (std::ssize(plan.ids) + std::ssize(plan.type_ids)) * static_cast<int64_t>(sizeof(int32_t));
  for (size_t i = 0; plan.texts != nullptr && i < plan.texts->size(); ++i) {
    bytes += kTextBytes + std::ssize((*plan.texts)[i].ids) * kTextTokenBytes;
  }
  return bytes;
}

int64_t WeightRowsOf(const AttendPlan& plan, const JobDescription& description) {
  return plan.model == nullptr
             ? 0
             : description.tokens + (plan.key.has_memory ? MemoryRows(description) : 0);
}

double AttentionFlopsOf(const AttendPlan& plan, const JobDescription& description) {
  return FlopsWith(plan, description, SumOf(plan, AttendedPairsOf)) -
         FlopsWith(plan, description, 0);
}

double FlopsOf(const AttendPlan& plan, const JobDescription& description) {
  return FlopsWith(plan, description, SumOf(plan, PairsOf));
}

}  // namespace attention
