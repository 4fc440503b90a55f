// The plan of an AttendRequest, in the core's terms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/attention/kv_cache.h"
#include "core/models/model.h"
#include "core/tokenizer/tokenizer.h"
#include "proto/codec/tensor.h"
#include "server/scheduling/job.h"
#include "server/services/plan/plan_options.h"
#include "server/services/plan/row_lengths.h"
#include "server/sessions/session_table.h"

namespace attention {

/// One sequence of the request, in request order. A sequence without query rows has nothing to
/// compute.
struct PlannedSequence {
  SequenceRows query;  // in the query operand
  SequenceRows key;    // in key and value; equals `query` for self-attention
  SequenceRows output;
  std::optional<int64_t> query_offset = {};
};

/// The memory of a token of a text: its piece of the text, its id and its type.
inline constexpr int64_t kTextTokenBytes = sizeof(std::string) + 2 * sizeof(int32_t);

/// The extents of one sequence's weights in one layer.
struct WeightsExtents {
  int64_t num_heads = 0;
  int64_t rows = 0;
  int64_t keys = 0;
};

/// The prefix that a sequence takes from the prefix cache.
struct TakenPrefix {
  /// The number of tokens that are not computed.
  int64_t length = 0;
  /// Keeps them in the prefix cache until `caches` has them.
  PrefixHold hold;
  /// The caches of the prefix, later of all tokens. Empty until the request runs, or after a step
  /// moved them to its session.
  std::vector<KvCache> caches;
  HiddenChunks hidden;
};

/// The prefixes that a request takes from the prefix cache, and the owner of such prefixes.
struct PlannedPrefix {
  /// The table that has the cache; null: the request does not use the cache.
  SessionTable* table = nullptr;
  PrefixOwner owner;
  /// The shapes of the caches of a sequence, one for each layer.
  std::vector<KvCacheShape> shapes;
  std::vector<TakenPrefix> taken;  // one for each sequence

  /// Returns the size of the caches of a sequence of so many tokens.
  int64_t CacheBytes(int64_t tokens) const;
  /// Returns the memory of a sequence besides its pages and its hidden states.
  int64_t BytesPerSequence() const {
    return static_cast<int64_t>(sizeof(TakenPrefix) + shapes.size() * sizeof(KvCache));
  }
};

/// The memory of a call in gRPC, measured with answers that nobody took.
inline constexpr int64_t kCallBytes = int64_t{16} << 10;

struct AttendPlan {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  BatchKey key;
  /// The output and the weights of a whole stack; without layers: no weights.
  ModelOutput wanted = ModelOutput::kHiddenStates;
  WeightsChoice weights_choice;
  std::vector<PlannedSequence> sequences;
  /// The operands by Operand; absent ones are empty. A token request has `ids` instead, with as
  /// many `type_ids` or none.
  ReceivedTensor operands[3];
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  bool is_token_request = false;
  /// The texts of a request of texts.
  std::shared_ptr<const std::vector<TokenizedText>> texts;
  /// The caches of a step of a session, whose one sequence follows `cached_len` tokens; null: no
  /// step.
  std::vector<KvCache>* caches = nullptr;
  int64_t cached_len = 0;
  PlannedPrefix prefix;

  Dtype output_dtype = Dtype::kF32;
  Shape output_shape;
  /// The number of elements of one output row.
  int64_t output_width = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// The number of extra keys of the layer, behind the keys of each sequence.
  int64_t extra_keys = 0;
  /// The rows and keys of the longest sequence; for padded tensors, their extents.
  int64_t longest_query = 0;
  int64_t longest_key = 0;
  PlannedOptions options;
  /// The memory that the request holds besides its message.
  int64_t extra_bytes = 0;
  /// The memory of the reply besides its output and tables: copies of those, and the call, which
  /// is held until its reply is sent.
  int64_t copied_reply_bytes = kCallBytes;

  /// Returns the caches that a sequence continues; null: none.
  std::vector<KvCache>* CachesOf(int64_t sequence) {
    return caches != nullptr || prefix.table == nullptr ? caches : &prefix.taken[sequence].caches;
  }
  /// Returns how many rows of a sequence are not computed, since the prefix cache has them.
  int64_t TakenOf(int64_t sequence) const {
    return prefix.table == nullptr ? 0 : prefix.taken[sequence].length;
  }
  /// Returns whether there is anything to do for a sequence: rows to compute, or keys to cache.
  bool HasWork(const PlannedSequence& sequence) const {
    return sequence.query.rows > 0 || (caches != nullptr && sequence.key.rows > 0);
  }
  /// Returns the number of columns of the weights of a layer, or of attention without a model.
  int64_t KeysOf(const PlannedSequence& sequence) const {
    return cached_len + sequence.key.rows + extra_keys;
  }
  /// Returns how many weights of each row are returned as its largest.
  int64_t TopKOf(const PlannedSequence& sequence) const {
    return std::min(options.wire->weights_top_k(), KeysOf(sequence));
  }
  /// Returns the extents of a layer's weights when the whole stack runs.
  WeightsExtents WeightsOf(int64_t layer, const PlannedSequence& sequence) const;
  /// Returns the number of tables in the reply. Each sequence has the same number, with or without
  /// rows.
  int64_t NumTables() const;
  /// Returns `model "gpt2"`.
  std::string ModelName() const;
  /// Returns the part of the model that runs: `model "gpt2"`, or `layer 3 of model "gpt2"`.
  std::string RunName() const;
};

/// Returns the number of the encoder's layers. The layers are in the order encoder, then (self,
/// cross) of each decoder block.
int64_t NumEncoderLayers(const ModelInfo& info);

/// Plans sequences whose keys are their own rows.
void PlanSelfAttention(const std::vector<SequenceRows>& rows, const RowLayout& layout,
                       AttendPlan& plan);

}  // namespace attention
