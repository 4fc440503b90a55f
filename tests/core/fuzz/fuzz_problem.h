// The tensors and options of a random call, beside guard pages.
#pragma once

#include <memory>
#include <vector>

#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "core/reference/reference.h"
#include "core/tensor/tensor.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/guarded_memory.h"

namespace attention {

inline HeadsView ReadOnly(const MutableHeadsView& view) {
  return {view.data,     view.dtype,        view.tokens,     view.num_heads,
          view.head_dim, view.token_stride, view.head_stride};
}

/// Everything that a call borrows.
class FuzzProblem {
 public:
  explicit FuzzProblem(const FuzzCase& fuzz_case);

  const reference::Extents& extents() const { return extents_; }
  const AttentionOptions& options() const { return options_; }
  /// Strided views beside guard pages.
  HeadsView query() const { return query_; }
  HeadsView key() const { return key_; }
  HeadsView value() const { return value_; }
  /// The dtype of the keys and values.
  Dtype key_dtype() const { return key_.dtype; }
  Dtype output_dtype() const;
  KeyValueStorage storage() const;
  /// f32 [query_len, num_heads, value_head_dim], dense: the residual of the layer's call.
  HeadsView residual() const;
  /// How many keys a row may attend to: those of the layer follow the sequence's.
  int64_t num_keys() const { return extents_.kv_len + NumExtraKeys(case_); }
  /// What the double-precision reference answers, to keys and values as a cache rounds them.
  reference::AttentionResult Expected() const;

  /// `bytes` beside a guard page, which live as long as this object.
  std::byte* NewMemory(int64_t bytes);
  /// [tokens, num_heads, width] in the case's layout, filled with kFiller.
  MutableHeadsView NewHeads(Dtype dtype, int64_t tokens, int64_t num_heads, int64_t width);
  static constexpr unsigned char kFiller = 0xa5;
  /// Rows of zeros or NaN of `shape` [tokens, num_heads, width], in the case's layout.
  HeadsView NewRows(Dtype dtype, const Shape& shape, bool is_nan);
  /// The view's elements without what lies between them.
  static Tensor Dense(const HeadsView& view);
  /// Whether all that lies between them is still kFiller.
  static bool HasCleanPadding(const MutableHeadsView& view);

 private:
  HeadsView Place(const Tensor& tensor);
  const float* PlaceFloats(const Tensor& tensor);
  bool PoisonsKey() const { return case_.poison_kind >= 2; }
  void Poison(Tensor& tensor) const;
  void PoisonQuery();
  void ExpectNaN(int64_t head, int64_t row, reference::AttentionResult& result) const;
  reference::Options OptionsOfReference() const;
  reference::Options WithExtraKeys(const reference::Options& options) const;
  void AddResidual(std::vector<double>& output) const;
  reference::AttentionResult Reference(reference::Options options) const;
  Rotary MakeRotary();
  void Resize(Tensor& tensor) const;
  void PoisonHiddenBiases();
  void MakeTensors();
  void MakeScores();
  void MakeRows();

  const FuzzCase case_;
  reference::Extents extents_;
  AttentionOptions options_;
  AttentionOptions dense_options_;  // biases and masks without padding, for the reference
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
  Tensor dense_query_, dense_key_, dense_value_, dense_bias_, dense_residual_;
  std::vector<uint8_t> dense_mask_;
  HeadsView query_, key_, value_;
};

}  // namespace attention
