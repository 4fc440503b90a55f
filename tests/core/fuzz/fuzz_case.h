// One random call of attention: what is asked, and how it is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attention {

/// What happened to a cache before it is read. All leave the same keys.
enum class CacheHistory {
  kNone,
  kTruncated,
  kForked,       // at half the keys; the original grew
  kForkOfFirst,  // of a longer cache
  kEmptied,
  kReserved,
  kForksCut,  // a fork of a fork, both cut within a shared page
  kShared,    // its pages are those of another cache, and both were written to
};
inline constexpr int64_t kNumCacheHistories = 8;

/// Numbers alone, so that a case can be written on a line and made simpler number by number. The
/// values here are the simplest.
struct FuzzCase {
  int64_t seed = 1;  // of all values

  // Shape.
  int64_t query_len = 1;
  int64_t kv_len = 1;
  int64_t kv_heads = 1;
  int64_t group = 1;  // query heads of a key/value head
  int64_t dim = 1;
  int64_t value_dim = 1;
  int64_t dtype = 0;         // Dtype
  int64_t key_dtype = 0;     // 1 + Dtype of the rows that a cache is given; 0: dtype
  int64_t output_dtype = 0;  // 1 + Dtype; 0: dtype
  int64_t value_size = 0;    // 1, 2: values are multiplied by 2^-60, by 2^60

  // Kind of attention.
  int64_t similarity = 0;  // Similarity
  int64_t causal = 0;
  int64_t has_offset = 0;
  int64_t offset = 0;
  int64_t window = 0;
  int64_t window_right = 0;
  int64_t window_dilation = 1;
  int64_t prefix = 0;
  int64_t global_tokens = 0;  // how many
  int64_t global_end = 0;     // counted from the last key on
  int64_t mask = 0;           // 1, 2: of single keys, of runs of keys; 3, 4: the same for all heads
  int64_t scale =
      0;  // 0: default; 1: zero; 2: negative; 3, 4: twice, 20 times the default; 5: tiny
  int64_t softcap = 0;     // in tenths
  int64_t alibi = 0;       // 1: the usual slopes; 2: small ones of both signs
  int64_t bias = 0;        // 1: of every head; 2: shared
  int64_t bias_kind = 0;   // 1, 2: some are -infinity, the lowest number, and all of some rows; 3:
                           // those of hidden keys are NaN
  int64_t sinks = 0;       // 1: N(0, 1); 2: 100 times as large
  int64_t query_norm = 0;  // 1: with weights; 2: without, and a large epsilon
  int64_t key_norm = 0;    // the same
  int64_t bandwidth = 0;   // 1, 2: a large one, a small one
  int64_t rotary = 0;      // 1: half split; 2: interleaved
  int64_t rotary_dim = 0;
  int64_t rotary_base = 10000;
  int64_t rotary_scaling = 0;  // Rotary::Scaling; 3: Llama 3 with other factors; 4: frequencies are
                               // given, and a magnitude (YaRN)
  int64_t rotary_offset = 0;
  int64_t poison = 0;        // p > 0: key p - 1 is not finite
  int64_t poison_kind = 0;   // 0, 1: NaN, infinity in its value; 2, 3: in the key; 4: NaN in both
  int64_t poison_head = 0;   // of the first head only
  int64_t query_poison = 0;  // p > 0: query row p - 1 is NaN, of the first head
  int64_t repeats = 0;       // n > 0: key j equals key j mod n

  // What else is wanted.
  int64_t weights = 0;
  int64_t log_sum_exp = 0;
  int64_t top_k = 0;

  // Where it lies.
  int64_t padding = 0;   // elements between tokens, and between rows of masks and biases
  int64_t by_head = 0;   // the tokens of a head follow one another, instead of the heads of a token
  int64_t at_begin = 0;  // memory begins behind the guard page, instead of ending before it

  // Way to compute it.
  int64_t threads = 1;
  int64_t mates = 0;      // 1, 2: other sequences of the batch; 3: also empty ones; 4: also cached
  int64_t mate_kind = 0;  // 0: causal; 1: linear; 2: gaussian; 3: rotary; 4: window, with weights
  int64_t bad_mates = 0;  // their rows are NaN
  int64_t block = 0;      // rows of a streamed block; 0: not streamed
  int64_t cancelled = 0;  // after a cancelled call on the same workspace
  int64_t layer = 0;  // by a layer; 1: keys from a memory; 2: keys from the rows, and a cache; 3:
                      // keys from a memory, values from another
  int64_t layer_weights = 0;     // 0: the identity; 1: random numbers, with biases
  int64_t layer_dtype = 0;       // WeightsDtype
  int64_t stored_dtype = 0;      // 1 + Dtype of the weights that the layer is given; 0: f32
  int64_t transposed = 0;        // they are [in_features, out_features]
  int64_t stored_padding = 0;    // elements between their rows
  int64_t shared_rotations = 0;  // the calls of the layer share their rotations
  int64_t extra_keys = 0;        // of the layer; 1: bias_k and bias_v; 2: add_zero_attn; 3: both
  int64_t residual = 0;          // of the layer; 1: in memory of its own; 2: in that of the output
  int64_t slices = 0;            // 1: as small as possible
  int64_t cache = 0;             // 1: f32; 2: bf16; 3: 8 bits
  int64_t cache_cut = 0;         // keys of each Append; 0: all
  int64_t cache_history = 0;     // CacheHistory
  int64_t cache_budget = 0;      // 1: what the history needs; appends that it refuses are tried
  int64_t small_pages = 0;
  int64_t grows = 0;      // the keys of a call's rows are appended before it
  int64_t query_cut = 0;  // rows of each call; 0: all
  int64_t parts = 0;      // n > 0: also merged from so many parts of the keys
};

/// The power of two by which the values are larger than N(0, 1).
double ValueSize(const FuzzCase& fuzz_case);
/// How many keys the layer adds.
int64_t NumExtraKeys(const FuzzCase& fuzz_case);
/// Whether the layer answers something else than attention to the same rows would.
bool NeedsLayer(const FuzzCase& fuzz_case);

/// The case that follows from a number; always valid.
FuzzCase MakeFuzzCase(uint64_t seed);
/// The nearest case that attention does not refuse.
FuzzCase Valid(FuzzCase fuzz_case);

/// "query_len=70,causal=1": what is not the simplest value.
std::string ToText(const FuzzCase& fuzz_case);
/// Nullopt for a name or number that is none.
std::optional<FuzzCase> ParseFuzzCase(const std::string& text);

/// Cases that differ from this one in one number, which is simpler.
std::vector<FuzzCase> SimplerCases(const FuzzCase& fuzz_case);

}  // namespace attention
