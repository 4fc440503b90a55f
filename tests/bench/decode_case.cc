// New tokens against a long key/value cache.
#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "tests/bench/case_support.h"

namespace attention::bench {
namespace {

class DecodeCase final : public Case {
 public:
  explicit DecodeCase(const CaseSpec& spec)
      : spec_(spec),
        query_(SeededTensor(1, spec.dtype, {spec.rows, spec.num_heads, spec.head_dim})),
        key_(SeededTensor(2, spec.dtype, {spec.seq_len, spec.num_kv_heads, spec.head_dim})),
        value_(SeededTensor(3, spec.dtype, key_.shape())),
        output_(spec.dtype, query_.shape()),
        cache_(*KvCache::Create({spec.num_kv_heads, spec.head_dim, spec.head_dim, *spec.storage})) {
    cache_
        .Append(DenseHeads<const void*>(key_.data(), spec.dtype, spec.seq_len, spec.num_kv_heads,
                                        spec.head_dim),
                DenseHeads<const void*>(value_.data(), spec.dtype, spec.seq_len, spec.num_kv_heads,
                                        spec.head_dim))
        .IgnoreError();
    sequence_.query = DenseHeads<const void*>(query_.data(), spec.dtype, spec.rows, spec.num_heads,
                                              spec.head_dim);
    sequence_.output =
        DenseHeads<void*>(output_.data(), spec.dtype, spec.rows, spec.num_heads, spec.head_dim);
    sequence_.cache = &cache_;
    sequence_.options = {
        .causal = spec.rows == 1, .similarity = spec.similarity, .bandwidth = spec.bandwidth};
  }

  void Run(Workspace& workspace) override {
    ScaledDotProductAttention({&sequence_, 1}, workspace).IgnoreError();
  }

  double Error() const override {
    const auto all = [](const Tensor& t) { return Doubles(t, 0, t.num_elements()); };
    const auto result =
        reference::Attention({spec_.rows, spec_.seq_len, spec_.num_heads, spec_.num_kv_heads,
                              spec_.head_dim, spec_.head_dim},
                             all(query_), all(key_), all(value_),
                             {.similarity = static_cast<reference::Similarity>(spec_.similarity),
                              .bandwidth = spec_.bandwidth});
    return reference::RelativeL2(all(output_), result.output);
  }

  double Tolerance() const override {
    switch (*spec_.storage) {
      case KeyValueStorage::kF32:
        return reference::kAttentionToleranceF32;
      case KeyValueStorage::kBf16:
        return reference::kAttentionToleranceBf16;
      case KeyValueStorage::kInt8:
        break;
    }
    return kInt8Tolerance;
  }

 private:
  CaseSpec spec_;
  Tensor query_, key_, value_, output_;
  KvCache cache_;
  AttentionSequence sequence_;
};

}  // namespace

std::unique_ptr<Case> MakeDecodeCase(const CaseSpec& spec) {
  return std::make_unique<DecodeCase>(spec);
}

}  // namespace attention::bench
