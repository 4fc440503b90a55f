// What attend-kernel-bench times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/attention/packed_layout.h"
#include "core/kernels/tile/similarity.h"
#include "core/runtime/workspace.h"
#include "core/tensor/dtype.h"

namespace attention::bench {

/// An attention call (d_model 0), a whole layer (num_heads * head_dim == d_model), or with
/// `storage` `rows` new tokens of each of batch_size sequences against seq_len cached ones each; of
/// a layer, its own among them.
struct CaseSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  int threads = 1;
  int64_t d_model = 0;
  int64_t batch_size = 1;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t seq_len = 0;
  int64_t head_dim = 0;
  bool causal = false;
  /// Of attention calls.
  Similarity similarity = Similarity::kDotProduct;
  double bandwidth = 0;
  int64_t window = 0;
  int64_t prefix = 0;
  /// The query rows, the last ones of each sequence; 0: all.
  int64_t last_rows = 0;
  /// In place of batch_size times seq_len, under this label.
  std::vector<int64_t> lengths = {};
  std::string label = {};
  std::optional<KeyValueStorage> storage = {};
  int64_t rows = 1;
  /// Whether a layer's weights are 8-bit integers.
  bool has_int8_weights = false;
  /// Of decoding layers: how many run after each other, as in a model, and whether queries and keys
  /// are rotated.
  int layers = 1;
  bool is_rotary = false;
};

/// The cases for up to `max_threads` threads, in the order they are printed.
std::vector<CaseSpec> AllCases(int max_threads);

/// The lengths of the case's sequences, and their sum.
std::vector<int64_t> LengthsOf(const CaseSpec& spec);
int64_t TokensOf(const CaseSpec& spec);

/// Floating point operations, two for each multiply-add; causal attention counts half of its
/// products, and one with a window its window and prefix. A squared difference counts as one
/// multiply-add. Linear attention counts key times value and query times their sum.
double Flop(const CaseSpec& spec);

/// Bytes of the cache that attention's decode cases read; 0 for the others.
double BytesRead(const CaseSpec& spec);

/// Bytes that a layer of the case, or its call of attention, reads: weights, caches, and the rows
/// of its products.
double BytesTouched(const CaseSpec& spec);

/// A case with its inputs, ready to run.
class Case {
 public:
  virtual ~Case() = default;
  virtual void Run(Workspace& workspace) = 0;
  /// Relative L2 of the last run's answer against the double-precision reference, on a sample of
  /// its rows.
  virtual double Error() const = 0;
  /// Largest error that counts as right.
  virtual double Tolerance() const = 0;
};

/// Makes a case of any kind; the functions below each make one of their kind.
std::unique_ptr<Case> MakeCase(const CaseSpec& spec);
std::unique_ptr<Case> MakeAttentionCase(const CaseSpec& spec);
std::unique_ptr<Case> MakeLayerCase(const CaseSpec& spec);
std::unique_ptr<Case> MakeDecodeCase(const CaseSpec& spec);
std::unique_ptr<Case> MakeLayerDecodeCase(const CaseSpec& spec);

}  // namespace attention::bench
