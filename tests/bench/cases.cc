#include "tests/bench/cases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/attention/attention.h"
#include "core/layers/multi_head_attention.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"

namespace attention::bench {
namespace {

constexpr int64_t kSampledRows = 8;

std::string CaseName(const CaseSpec& s) {
  std::string name =
      absl::StrCat(s.d_model > 0 ? "layer" : "attention", "/",
                   s.dtype == Dtype::kF32 ? "f32" : "bf16", "/B", s.batch_size, "_S", s.seq_len);
  if (s.d_model > 0) {
    absl::StrAppend(&name, "_E", s.d_model);
  }
  absl::StrAppend(&name, "_H", s.num_heads);
  if (s.num_kv_heads != s.num_heads) {
    absl::StrAppend(&name, "/", s.num_kv_heads);
  }
  if (s.d_model == 0) {
    absl::StrAppend(&name, "_D", s.head_dim);
  }
  return absl::StrCat(name, s.causal ? "/causal" : "", "/threads", s.threads);
}

std::vector<double> Doubles(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first), Dtype::kF32,
          values.data(), count);
  return {values.begin(), values.end()};
}

/// Rows to check: the first, the last, and others spread between.
std::vector<int64_t> SampleRows(int64_t seq_len) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < kSampledRows; ++i) {
    rows.push_back(i * (seq_len - 1) / (kSampledRows - 1));
  }
  return rows;
}

class AttentionCase final : public Case {
 public:
  explicit AttentionCase(const CaseSpec& spec)
      : spec_(spec),
        query_(SeededTensor(1, spec.dtype, {Tokens(), spec.num_heads, spec.head_dim})),
        key_(SeededTensor(2, spec.dtype, {Tokens(), spec.num_kv_heads, spec.head_dim})),
        value_(SeededTensor(3, spec.dtype, {Tokens(), spec.num_kv_heads, spec.head_dim})),
        output_(spec.dtype, {Tokens(), spec.num_heads, spec.head_dim}) {
    for (int64_t b = 0; b < spec.batch_size; ++b) {
      sequences_.push_back({.query = Heads(query_, b, spec.num_heads),
                            .key = Heads(key_, b, spec.num_kv_heads),
                            .value = Heads(value_, b, spec.num_kv_heads),
                            .output = OutputHeads(b),
                            .options = {.causal = spec.causal}});
    }
  }

  void Run(Workspace& workspace) override {
    ScaledDotProductAttention(sequences_, workspace).IgnoreError();
  }

  double Error() const override {
    const int64_t last = (spec_.batch_size - 1) * spec_.seq_len;
    const int64_t kv_width = spec_.num_kv_heads * spec_.head_dim;
    const int64_t width = spec_.num_heads * spec_.head_dim;
    const auto key = Doubles(key_, last * kv_width, spec_.seq_len * kv_width);
    const auto value = Doubles(value_, last * kv_width, spec_.seq_len * kv_width);
    std::vector<double> actual;
    std::vector<double> expected;
    for (const int64_t row : SampleRows(spec_.seq_len)) {
      const auto result = reference::Attention(
          {1, spec_.seq_len, spec_.num_heads, spec_.num_kv_heads, spec_.head_dim, spec_.head_dim},
          Doubles(query_, (last + row) * width, width), key, value,
          {.causal = spec_.causal, .query_offset = row});
      const auto got = Doubles(output_, (last + row) * width, width);
      expected.insert(expected.end(), result.output.begin(), result.output.end());
      actual.insert(actual.end(), got.begin(), got.end());
    }
    return reference::RelativeL2(actual, expected);
  }

  double Tolerance() const override {
    return spec_.dtype == Dtype::kF32 ? reference::kAttentionToleranceF32
                                      : reference::kAttentionToleranceBf16;
  }

 private:
  int64_t Tokens() const { return spec_.batch_size * spec_.seq_len; }

  HeadsView Heads(const Tensor& tensor, int64_t b, int64_t heads) const {
    return SliceTokens(DenseHeads(tensor.data(), tensor.dtype(), Tokens(), heads, spec_.head_dim),
                       b * spec_.seq_len, spec_.seq_len);
  }

  MutableHeadsView OutputHeads(int64_t b) {
    return SliceTokens(
        DenseHeads(output_.data(), output_.dtype(), Tokens(), spec_.num_heads, spec_.head_dim),
        b * spec_.seq_len, spec_.seq_len);
  }

  CaseSpec spec_;
  Tensor query_, key_, value_, output_;
  std::vector<AttentionSequence> sequences_;
};

std::vector<double> Doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

class LayerCase final : public Case {
 public:
  explicit LayerCase(const CaseSpec& spec)
      : spec_(spec),
        weights_(MakeSeededLayer(7, spec.dtype, spec.d_model, spec.num_heads, spec.num_kv_heads,
                                 spec.head_dim, spec.head_dim)),
        input_(SeededTensor(1, spec.dtype, {spec.batch_size * spec.seq_len, spec.d_model})),
        output_(spec.dtype, input_.shape()) {
    const MultiHeadAttentionShape shape{spec.d_model,      spec.d_model,  spec.num_heads,
                                        spec.num_kv_heads, spec.head_dim, spec.head_dim};
    layer_ = *MultiHeadAttention::Create(
        shape,
        {weights_.query.data(), weights_.key.data(), weights_.value.data(), weights_.output.data(),
         weights_.query_bias.data(), weights_.key_bias.data(), weights_.value_bias.data(),
         weights_.output_bias.data()},
        spec.dtype);
    for (int64_t b = 0; b < spec.batch_size; ++b) {
      const int64_t first_row = b * spec.seq_len;
      sequences_.push_back(
          {.first_row = first_row,
           .query_len = spec.seq_len,
           .output = {ElementAt(output_.data(), spec.dtype, first_row * spec.d_model), spec.dtype,
                      spec.seq_len, spec.d_model, spec.d_model},
           .options = {.causal = spec.causal}});
    }
  }

  void Run(Workspace& workspace) override {
    const MatrixView input{input_.data(), spec_.dtype, spec_.batch_size * spec_.seq_len,
                           spec_.d_model, spec_.d_model};
    layer_->Run(input, std::nullopt, sequences_, workspace).IgnoreError();
  }

  /// Sampled rows as queries against the sequence as memory: the same attention, and the reference
  /// need not project every query. Causal rows each see a memory of their own.
  double Error() const override {
    const int64_t last = (spec_.batch_size - 1) * spec_.seq_len;
    std::vector<int64_t> rows = SampleRows(spec_.causal ? 256 : spec_.seq_len);
    std::vector<double> actual;
    std::vector<double> expected;
    std::vector<double> queries;
    for (const int64_t row : rows) {
      Append(Doubles(output_, (last + row) * spec_.d_model, spec_.d_model), actual);
      const auto query = Doubles(input_, (last + row) * spec_.d_model, spec_.d_model);
      if (spec_.causal) {
        Append(Expected(query, row + 1), expected);
      } else {
        Append(query, queries);
      }
    }
    return reference::RelativeL2(actual,
                                 spec_.causal ? expected : Expected(queries, spec_.seq_len));
  }

  double Tolerance() const override {
    return spec_.dtype == Dtype::kF32 ? reference::kLayerToleranceF32
                                      : reference::kLayerToleranceBf16;
  }

 private:
  static void Append(const std::vector<double>& values, std::vector<double>& to) {
    to.insert(to.end(), values.begin(), values.end());
  }

  /// The layer's answer for `queries` that see the first `seen` rows of the last sequence.
  std::vector<double> Expected(const std::vector<double>& queries, int64_t seen) const {
    const reference::Layer layer{spec_.d_model,
                                 spec_.d_model,
                                 spec_.num_heads,
                                 spec_.num_kv_heads,
                                 spec_.head_dim,
                                 spec_.head_dim,
                                 Doubles(weights_.query),
                                 Doubles(weights_.key),
                                 Doubles(weights_.value),
                                 Doubles(weights_.output),
                                 Doubles(weights_.query_bias),
                                 Doubles(weights_.key_bias),
                                 Doubles(weights_.value_bias),
                                 Doubles(weights_.output_bias)};
    const int64_t last = (spec_.batch_size - 1) * spec_.seq_len;
    const auto memory = Doubles(input_, last * spec_.d_model, seen * spec_.d_model);
    return reference::MultiHeadAttention(layer, queries, memory, {}).output;
  }

  CaseSpec spec_;
  SeededLayer weights_;
  Tensor input_, output_;
  std::unique_ptr<MultiHeadAttention> layer_;
  std::vector<LayerSequence> sequences_;
};

CaseSpec Attention(Dtype dtype, int64_t batch, int64_t seq_len, int64_t heads, bool causal) {
  return {.dtype = dtype,
          .batch_size = batch,
          .num_heads = heads,
          .num_kv_heads = heads,
          .seq_len = seq_len,
          .head_dim = 64,
          .causal = causal};
}

CaseSpec Layer(Dtype dtype, int64_t seq_len, int64_t d_model, bool causal) {
  return {.dtype = dtype,
          .d_model = d_model,
          .num_heads = d_model / 64,
          .num_kv_heads = d_model / 64,
          .seq_len = seq_len,
          .head_dim = 64,
          .causal = causal};
}

std::vector<CaseSpec> CasesOf(Dtype dtype) {
  CaseSpec wide = Attention(dtype, 1, 1024, 32, true);
  wide.head_dim = 128;
  CaseSpec grouped = wide;
  grouped.num_kv_heads = 8;
  return {Attention(dtype, 1, 128, 12, false),
          Attention(dtype, 8, 128, 12, false),
          Attention(dtype, 1, 197, 12, false),
          Attention(dtype, 1, 512, 12, false),
          Attention(dtype, 1, 512, 12, true),
          Attention(dtype, 1, 2048, 16, false),
          Attention(dtype, 1, 2048, 16, true),
          wide,
          grouped,
          Layer(dtype, 16, 768, false),
          Layer(dtype, 128, 768, false),
          Layer(dtype, 512, 768, false),
          Layer(dtype, 512, 768, true),
          Layer(dtype, 2048, 1024, true)};
}

}  // namespace

std::vector<CaseSpec> AllCases(int max_threads) {
  std::vector<CaseSpec> cases;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    for (const CaseSpec& spec : CasesOf(dtype)) {
      for (int threads = 1; threads <= max_threads; ++threads) {
        cases.push_back(spec);
        cases.back().threads = threads;
        cases.back().name = CaseName(cases.back());
      }
    }
  }
  return cases;
}

double Flop(const CaseSpec& s) {
  const double tokens = static_cast<double>(s.batch_size) * s.seq_len;
  const double attention = 4.0 * tokens * s.seq_len * s.num_heads * s.head_dim;
  return attention * (s.causal ? 0.5 : 1.0) + 8.0 * tokens * s.d_model * s.d_model;
}

std::unique_ptr<Case> MakeCase(const CaseSpec& spec) {
  if (spec.d_model > 0) {
    return std::make_unique<LayerCase>(spec);
  }
  return std::make_unique<AttentionCase>(spec);
}

}  // namespace attention::bench
