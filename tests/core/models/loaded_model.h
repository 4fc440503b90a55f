// A checkpoint of tests/data, loaded, with its golden cases.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/models/load_model.h"
#include "core/tensor/safetensors.h"

namespace attention {

/// Folders, relative to tests/data.
std::vector<std::string> TestCheckpoints();

/// Ends the program when the folder does not load.
std::string TestCheckpointPath(const std::string& folder);

/// A layer's run. Names of case tensors [B, S, ..]; empty: none.
struct TestLayerRun {
  std::string input;
  std::string memory = {};
  std::string memory_values = {};
  std::optional<bool> causal = {};
};

/// A run of the stack. `ids` [B, S] or packed with `lengths`, or `rows` [B, S, E].
struct TestForward {
  std::string ids = {};
  std::string type_ids = {};
  std::string lengths = {};
  std::string rows = {};
  std::string memory = {};
  ModelOutput wanted = ModelOutput::kHiddenStates;
};

class LoadedTestModel {
 public:
  explicit LoadedTestModel(const std::string& folder,
                           WeightsDtype weights_dtype = WeightsDtype::kF32);

  const Model& model() const { return *model_; }
  const ModelInfo& info() const { return model_->info(); }
  bool HasCase(const std::string& name) const;
  const Tensor& case_tensor(const std::string& name) const;

  std::vector<float> RunLayer(int64_t layer, const TestLayerRun& run) const;
  std::vector<float> Forward(const TestForward& run, int num_threads = 1) const;
  std::vector<float> ForwardOneByOne(const TestForward& run) const;
  /// [B, heads, S, S] of one layer, from a run of the stack.
  std::vector<float> Weights(const std::string& ids, int64_t layer,
                             const std::vector<int64_t>& heads) const;

 private:
  struct Batch;
  Batch MakeBatch(const TestForward& run) const;
  std::vector<float> Run(const Batch& batch, ModelOutput wanted, int num_threads) const;
  /// Golden cases of tests/data/golden keep transformers' names.
  std::string CaseName(const std::string& name) const;

  NamedTensors cases_;
  std::unique_ptr<Model> model_;
};

/// Largest absolute difference; infinite when the sizes differ or something is not finite.
double LargestDifference(const Tensor& expected, const std::vector<float>& actual);

}  // namespace attention
