#include <cstring>

#include "core/attention/attention.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "tests/bench/case_support.h"

namespace attention::bench {
namespace {

class AttentionCase final : public Case {
 public:
  explicit AttentionCase(const CaseSpec& spec)
      : spec_(spec),
        query_(SeededTensor(1, spec.dtype, {Tokens(), spec.num_heads, spec.head_dim})),
        key_(SeededTensor(2, spec.dtype, {Tokens(), spec.num_kv_heads, spec.head_dim})),
        value_(SeededTensor(3, spec.dtype, {Tokens(), spec.num_kv_heads, spec.head_dim})),
        output_(spec.dtype, {Tokens(), spec.num_heads, spec.head_dim}) {
    std::memset(output_.data(), 0, output_.size_bytes());  // the system's pages are there
    int64_t first = 0;
    for (const int64_t length : LengthsOf(spec)) {
      const int64_t rows = RowsOf(length);
      const int64_t first_row = first + length - rows;
      sequences_.push_back({.query = SliceTokens(Heads(query_), first_row, rows),
                            .key = SliceTokens(Heads(key_), first, length),
                            .value = SliceTokens(Heads(value_), first, length),
                            .output = SliceTokens(DenseHeads(output_.data(), spec.dtype, Tokens(),
                                                             spec.num_heads, spec.head_dim),
                                                  first_row, rows),
                            .options = {.causal = spec.causal,
                                        .window = spec.window,
                                        .prefix = spec.prefix,
                                        .similarity = spec.similarity,
                                        .bandwidth = spec.bandwidth}});
      first += length;
    }
  }

  void Run(Workspace& workspace) override {
    ScaledDotProductAttention(sequences_, workspace).IgnoreError();
  }

  double Error() const override {
    const int64_t length = LengthsOf(spec_).back();
    const int64_t last = Tokens() - length;
    const int64_t kv_width = spec_.num_kv_heads * spec_.head_dim;
    const int64_t width = spec_.num_heads * spec_.head_dim;
    const auto key = Doubles(key_, last * kv_width, length * kv_width);
    const auto value = Doubles(value_, last * kv_width, length * kv_width);
    std::vector<double> actual;
    std::vector<double> expected;
    const int64_t rows = RowsOf(length);
    for (const int64_t sample : SampleRows(rows)) {
      const int64_t row = length - rows + sample;
      const auto result = reference::Attention(
          {1, length, spec_.num_heads, spec_.num_kv_heads, spec_.head_dim, spec_.head_dim},
          Doubles(query_, (last + row) * width, width), key, value,
          {.causal = spec_.causal,
           .query_offset = row,
           .window = spec_.window,
           .prefix = spec_.prefix,
           .similarity = static_cast<reference::Similarity>(spec_.similarity),
           .bandwidth = spec_.bandwidth});
      const auto got = Doubles(output_, (last + row) * width, width);
      Append(result.output, expected);
      Append(got, actual);
    }
    return reference::RelativeL2(actual, expected);
  }

  double Tolerance() const override {
    return spec_.dtype == Dtype::kF32 ? reference::kAttentionToleranceF32
                                      : reference::kAttentionToleranceBf16;
  }

 private:
  int64_t Tokens() const { return TokensOf(spec_); }
  int64_t RowsOf(int64_t length) const { return spec_.last_rows > 0 ? spec_.last_rows : length; }

  static HeadsView Heads(const Tensor& t) {
    return DenseHeads(t.data(), t.dtype(), t.shape()[0], t.shape()[1], t.shape()[2]);
  }

  CaseSpec spec_;
  Tensor query_, key_, value_, output_;
  std::vector<AttentionSequence> sequences_;
};

}  // namespace

std::unique_ptr<Case> MakeAttentionCase(const CaseSpec& spec) {
  return std::make_unique<AttentionCase>(spec);
}

}  // namespace attention::bench
