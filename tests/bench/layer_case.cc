#include <algorithm>

#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "tests/bench/case_support.h"

namespace attention::bench {
namespace {

class LayerCase final : public Case {
 public:
  explicit LayerCase(const CaseSpec& spec)
      : spec_(spec),
        layer_(spec),
        input_(SeededTensor(1, spec.dtype, {TokensOf(spec), spec.d_model})),
        output_(spec.dtype, input_.shape()) {
    int64_t first_row = 0;
    for (const int64_t length : LengthsOf(spec)) {
      sequences_.push_back(
          {.first_row = first_row,
           .query_len = length,
           .output = {ElementAt(output_.data(), spec.dtype, first_row * spec.d_model), spec.dtype,
                      length, spec.d_model, spec.d_model},
           .options = {.causal = spec.causal}});
      first_row += length;
    }
  }

  void Run(Workspace& workspace) override {
    const MatrixView input{input_.data(), spec_.dtype, TokensOf(spec_), spec_.d_model,
                           spec_.d_model};
    layer_.layer->Run({.hidden_states = input, .sequences = sequences_}, workspace).IgnoreError();
  }

  /// Sampled rows as queries against the sequence as memory: the same attention, and the reference
  /// need not project every query. Causal rows each see a memory of their own.
  double Error() const override {
    const int64_t length = LengthsOf(spec_).back();
    const int64_t last = TokensOf(spec_) - length;
    std::vector<int64_t> rows = SampleRows(spec_.causal ? std::min<int64_t>(256, length) : length);
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
    return reference::RelativeL2(actual, spec_.causal ? expected : Expected(queries, length));
  }

  double Tolerance() const override { return LayerTolerance(spec_); }

 private:
  /// The layer's answer for `queries` that see the first `seen` rows of the last sequence.
  std::vector<double> Expected(const std::vector<double>& queries, int64_t seen) const {
    const int64_t last = TokensOf(spec_) - LengthsOf(spec_).back();
    const auto memory = Doubles(input_, last * spec_.d_model, seen * spec_.d_model);
    return reference::MultiHeadAttention(layer_.reference, queries, memory, {}).output;
  }

  CaseSpec spec_;
  BenchLayer layer_;
  Tensor input_, output_;
  std::vector<LayerSequence> sequences_;
};

}  // namespace

std::unique_ptr<Case> MakeLayerCase(const CaseSpec& spec) {
  return std::make_unique<LayerCase>(spec);
}

}  // namespace attention::bench
