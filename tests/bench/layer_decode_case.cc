// One new token of each of many sequences through a layer, against caches of their own.
#include "core/tensor/seeded.h"
#include "tests/bench/case_support.h"

namespace attention::bench {
namespace {

class LayerDecodeCase final : public Case {
 public:
  explicit LayerDecodeCase(const CaseSpec& spec)
      : spec_(spec),
        layer_(spec),
        prompt_(SeededTensor(1, spec.dtype, {spec.seq_len - 1, spec.d_model})),
        input_(SeededTensor(2, spec.dtype, {spec.batch_size, spec.d_model})),
        output_(spec.dtype, input_.shape()) {
    KvCache prompt = Prefill();
    for (int64_t i = 0; i < spec.batch_size; ++i) {
      caches_.push_back(prompt.Fork());
    }
    for (int64_t i = 0; i < spec.batch_size; ++i) {
      sequences_.push_back({.first_row = i,
                            .query_len = 1,
                            .output = Rows(output_, i, 1),
                            .cache = &caches_[i],
                            .options = Options()});
    }
  }

  void Run(Workspace& workspace) override {
    RotaryTables rotations;
    for (int i = 0; i < spec_.layers; ++i) {
      for (KvCache& cache : caches_) {
        cache.Truncate(spec_.seq_len - 1).IgnoreError();  // of the layer or run before
      }
      layer_.layer
          ->Run({.hidden_states = ReadOnly(Rows(input_, 0, spec_.batch_size)),
                 .sequences = sequences_,
                 .rotations = &rotations},
                workspace)
          .IgnoreError();
    }
  }

  double Error() const override {
    std::vector<double> actual;
    std::vector<double> expected;
    for (const int64_t i : SampleRows(spec_.batch_size)) {
      const auto token = Doubles(input_, i * spec_.d_model, spec_.d_model);
      auto memory = Doubles(prompt_, 0, prompt_.num_elements());
      Append(token, memory);
      Append(Doubles(output_, i * spec_.d_model, spec_.d_model), actual);
      reference::Options options;
      if (spec_.is_rotary) {
        options.rotary = reference::Rotary{};
        options.query_offset = spec_.seq_len - 1;
      }
      Append(reference::MultiHeadAttention(layer_.reference, token, memory, options).output,
             expected);
    }
    return reference::RelativeL2(actual, expected);
  }

  double Tolerance() const override { return LayerTolerance(spec_); }

 private:
  AttentionOptions Options() const {
    AttentionOptions options{.causal = true};
    if (spec_.is_rotary) {
      options.rotary = Rotary{};
    }
    return options;
  }

  static MutableMatrixView Rows(Tensor& tensor, int64_t first, int64_t count) {
    const int64_t width = tensor.shape()[1];
    return SliceRows(MutableMatrixView{tensor.data(), tensor.dtype(), 0, width, width}, first,
                     count);
  }

  KvCache Prefill() {
    KvCache cache = *KvCache::Create(*layer_.layer->CacheShape(*spec_.storage));
    Tensor ignored(spec_.dtype, prompt_.shape());
    const LayerSequence sequence{.query_len = prompt_.shape()[0],
                                 .output = Rows(ignored, 0, prompt_.shape()[0]),
                                 .cache = &cache,
                                 .options = Options()};
    ThreadPool pool(1);
    Workspace workspace(pool);
    layer_.layer
        ->Run({.hidden_states = ReadOnly(Rows(prompt_, 0, prompt_.shape()[0])),
               .sequences = {&sequence, 1}},
              workspace)
        .IgnoreError();
    return cache;
  }

  CaseSpec spec_;
  BenchLayer layer_;
  Tensor prompt_, input_, output_;
  std::vector<KvCache> caches_;
  std::vector<LayerSequence> sequences_;
};

}  // namespace

std::unique_ptr<Case> MakeLayerDecodeCase(const CaseSpec& spec) {
  return std::make_unique<LayerDecodeCase>(spec);
}

}  // namespace attention::bench
