#include "tests/bench/model_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/models/load_model.h"
#include "core/reference/reference.h"
#include "tests/bench/measure.h"

namespace attention::bench {
namespace {

constexpr int64_t kSeqLen = 128;

/// Largest relative L2 against f32 weights that counts as right.
double ToleranceOf(WeightsDtype dtype) {
  return dtype == WeightsDtype::kF32 ? 0 : dtype == WeightsDtype::kBf16 ? 0.05 : 0.2;
}

const char* LabelOf(WeightsDtype dtype) {
  return dtype == WeightsDtype::kF32 ? "f32" : dtype == WeightsDtype::kBf16 ? "bf16" : "int8";
}

/// Anonymous resident memory.
double RssAnonMegabytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "RssAnon:") {
      double kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024 / 1e6;
    }
  }
  return 0;
}

std::unique_ptr<Model> Load(const std::string& folder, WeightsDtype dtype) {
  const double before = RssAnonMegabytes();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<LoadedModel> loaded = LoadModel({.name = "model", .folder = folder}, dtype);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    std::exit(EXIT_FAILURE);
  }
  const double read = static_cast<double>(loaded->read_bytes) / 1e6;
  const double kept = static_cast<double>(loaded->model->info().weights_bytes) / 1e6;
  std::printf(
      "load/%-4s %8.1f MB read in %6.3f s, %7.0f MB/s; keeps %8.1f MB, %.2f times that in "
      "RssAnon\n",
      LabelOf(dtype), read, elapsed.count(), read / elapsed.count(), kept,
      (RssAnonMegabytes() - before) / kept);
  return std::move(loaded->model);
}

/// A batch of equally long sequences of seeded token ids.
class ModelCase {
 public:
  ModelCase(const Model& model, int64_t batch_size)
      : model_(model),
        ids_(batch_size * kSeqLen),
        hidden_(batch_size * kSeqLen * model.info().d_model),
        output_(hidden_.size()) {
    for (size_t i = 0; i < ids_.size(); ++i) {
      ids_[i] = static_cast<int32_t>((i * 2654435761u + 17) % model.info().vocab_size);
    }
  }

  void Run(Workspace& workspace) {
    const int64_t width = model_.info().d_model;
    std::vector<ModelSequence> sequences;
    for (int64_t row = 0; row < std::ssize(ids_); row += kSeqLen) {
      model_.Embed({std::span(ids_).subspan(row, kSeqLen)}, &hidden_[row * width]);
      sequences.push_back({.first_row = row,
                           .seq_len = kSeqLen,
                           .output = {&output_[row * width], Dtype::kF32, kSeqLen, width, width}});
    }
    const ModelCall call{
        .hidden_states = {hidden_.data(), Dtype::kF32, std::ssize(ids_), width, width},
        .sequences = sequences};
    model_.Forward(call, workspace).IgnoreError();
  }

  std::vector<float> FirstSequence() const {
    return {output_.begin(), output_.begin() + kSeqLen * model_.info().d_model};
  }

 private:
  const Model& model_;
  std::vector<int32_t> ids_;
  std::vector<float> hidden_, output_;
};

/// Two for each multiply-add.
double FlopOf(const Model& model, int64_t batch_size) {
  const ModelInfo& info = model.info();
  const double element_bytes = info.weights_dtype == WeightsDtype::kF32    ? 4
                               : info.weights_dtype == WeightsDtype::kBf16 ? 2
                                                                           : 1;
  double weights = static_cast<double>(info.layers_bytes) / element_bytes;
  double products = 0;
  for (const ModelLayerInfo& layer : info.layers) {
    products += 2.0 * layer.shape.num_heads * (layer.shape.head_dim + layer.shape.value_head_dim) *
                kSeqLen * kSeqLen * (layer.causal ? 0.5 : 1);
  }
  return batch_size * (2 * weights * kSeqLen + products);
}

std::vector<float> AnswerOf(const Model& model, int64_t batch_size, ThreadPool& pool) {
  Workspace workspace(pool);
  ModelCase computation(model, batch_size);
  computation.Run(workspace);
  return computation.FirstSequence();
}

}  // namespace

nlohmann::json BenchModel(const ModelBenchOptions& options) {
  nlohmann::json results = nlohmann::json::array();
  ThreadPool pool(options.threads);
  std::vector<float> exact;
  for (const WeightsDtype dtype : {WeightsDtype::kF32, WeightsDtype::kBf16, WeightsDtype::kInt8}) {
    const std::unique_ptr<Model> model = Load(options.folder, dtype);
    const std::vector<float> alone = AnswerOf(*model, 1, pool);
    exact = exact.empty() ? alone : exact;
    const double error =
        reference::RelativeL2({alone.begin(), alone.end()}, {exact.begin(), exact.end()});
    for (const int64_t batch_size : {1, 8}) {
      const std::string name = absl::StrCat("model/", LabelOf(dtype), "/B", batch_size, "_S",
                                            kSeqLen, "/threads", options.threads);
      if (!std::regex_search(name, options.filter)) {
        continue;
      }
      Workspace workspace(pool);
      ModelCase computation(*model, batch_size);
      const Measurement m =
          Measure({.dtype = dtype == WeightsDtype::kF32 ? Dtype::kF32 : Dtype::kBf16,
                   .threads = options.threads,
                   .flop = FlopOf(*model, batch_size),
                   .seconds = options.seconds},
                  [&] { computation.Run(workspace); });
      const bool right = error <= ToleranceOf(dtype) && computation.FirstSequence() == alone;
      std::printf("%-48s %9.3f ms %8.1f GFLOP/s  %5.1f %% of %7.1f  %s %.1e\n", name.c_str(),
                  m.median_ns / 1e6, m.gflops, m.share * 100, m.peak_gflops,
                  right ? "right" : "WRONG", error);
      std::fflush(stdout);
      results.push_back({{"name", name},
                         {"threads", options.threads},
                         {"median_ns", m.median_ns},
                         {"gflops", m.gflops},
                         {"peak_gflops", m.peak_gflops},
                         {"share", m.share},
                         {"checked", right}});
    }
  }
  return results;
}

}  // namespace attention::bench
