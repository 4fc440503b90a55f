#include "tests/core/models/loaded_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/differences.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

std::vector<int32_t> ToInts(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.num_elements()};
}

/// The index-th of a batch of rank-3 tensors.
MatrixView Slice(const Tensor& tensor, int64_t index) {
  const int64_t rows = tensor.shape()[1];
  const int64_t cols = tensor.shape()[2];
  return {tensor.as<float>() + index * rows * cols, Dtype::kF32, rows, cols, cols};
}

}  // namespace

std::vector<std::string> TestCheckpoints() {
  std::vector<std::string> folders;
  for (const char* parent : {"golden", "models"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(ATTEND_TEST_DATA) / parent)) {
      if (std::filesystem::exists(entry.path() / "config.json")) {
        folders.push_back(absl::StrCat(parent, "/", entry.path().filename().string()));
      }
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string TestCheckpointPath(const std::string& folder) {
  return absl::StrCat(ATTEND_TEST_DATA, "/", folder);
}

LoadedTestModel::LoadedTestModel(const std::string& folder, WeightsDtype weights_dtype)
    : cases_(ValueOrDie(ReadSafetensors(TestCheckpointPath(folder) + "/cases.safetensors"))),
      model_(
          ValueOrDie(LoadModel({.name = "m", .folder = TestCheckpointPath(folder)}, weights_dtype))
              .model) {}

std::string LoadedTestModel::CaseName(const std::string& name) const {
  if (cases_.count(name) > 0) {
    return name;
  }
  std::string layer;
  std::string rest;
  if (name.rfind("layers.", 0) == 0) {
    const size_t dot = name.find('.', 7);
    layer = name.substr(7, dot - 7);
    rest = name.substr(name.rfind('.') + 1);
    const bool is_output = rest == "output";
    for (const std::string& other :
         {absl::StrCat("h.", layer, ".attn.", rest),
          absl::StrCat("layers.", layer, ".self_attn.", rest),
          absl::StrCat("encoder.layer.", layer, ".attention.", is_output ? "projected" : rest)}) {
      if (cases_.count(other) > 0) {
        return other;
      }
    }
  }
  return name;
}

bool LoadedTestModel::HasCase(const std::string& name) const {
  return cases_.count(CaseName(name)) > 0;
}

const Tensor& LoadedTestModel::case_tensor(const std::string& name) const {
  return cases_.at(CaseName(name));
}

std::vector<float> LoadedTestModel::RunLayer(int64_t layer, const TestLayerRun& run) const {
  const Tensor& input = case_tensor(run.input);
  const int64_t rows = input.shape()[1];
  const int64_t width = info().d_model;
  const AttentionOptions requested{.causal = run.causal.value_or(info().layers[layer].causal)};
  std::vector<float> output(input.num_elements());
  ThreadPool pool(1);
  Workspace workspace(pool);
  for (int64_t b = 0; b < input.shape()[0]; ++b) {
    LayerSequence sequence{.query_len = rows,
                           .output = {&output[b * rows * width], Dtype::kF32, rows, width, width}};
    LayerCall call{.hidden_states = Slice(input, b), .sequences = {&sequence, 1}};
    if (!run.memory.empty()) {
      call.memory = Slice(case_tensor(run.memory), b);
      sequence.memory_len = call.memory->rows;
    }
    if (!run.memory_values.empty()) {
      call.memory_values = Slice(case_tensor(run.memory_values), b);
    }
    sequence.options =
        model_->LayerOptions(layer, requested, run.memory.empty() ? rows : sequence.memory_len);
    const absl::Status status = model_->layer(layer).Run(call, workspace);
    if (!status.ok()) {
      return {};
    }
  }
  return output;
}

/// Rows of a run, and the lengths of its sequences.
struct LoadedTestModel::Batch {
  std::vector<float> rows;
  std::vector<int64_t> lengths;
  std::vector<float> memory = {};
  std::vector<int64_t> memory_lengths = {};
};

LoadedTestModel::Batch LoadedTestModel::MakeBatch(const TestForward& run) const {
  Batch batch;
  const int64_t width = info().d_model;
  if (!run.rows.empty()) {
    const Tensor& rows = case_tensor(run.rows);
    batch.rows.assign(rows.as<float>(), rows.as<float>() + rows.num_elements());
    batch.lengths.assign(rows.shape()[0], rows.shape()[1]);
  } else {
    const Tensor& tensor = case_tensor(run.ids);
    const std::vector<int32_t> ids = ToInts(tensor);
    const std::vector<int32_t> types =
        run.type_ids.empty() ? std::vector<int32_t>() : ToInts(case_tensor(run.type_ids));
    if (run.lengths.empty()) {
      batch.lengths.assign(tensor.shape()[0], tensor.shape()[1]);
    } else {
      const std::vector<int32_t> lengths = ToInts(case_tensor(run.lengths));
      batch.lengths.assign(lengths.begin(), lengths.end());
    }
    batch.rows.resize(ids.size() * width);
    int64_t first = 0;
    for (const int64_t length : batch.lengths) {
      TokenSequence tokens{std::span(ids).subspan(first, length)};
      if (!types.empty()) {
        tokens.type_ids = std::span(types).subspan(first, length);
      }
      if (!model_->ValidateTokens(tokens).ok()) {
        return {};
      }
      model_->Embed(tokens, &batch.rows[first * width]);
      first += length;
    }
  }
  if (!run.memory.empty()) {
    const Tensor& memory = case_tensor(run.memory);
    batch.memory.assign(memory.as<float>(), memory.as<float>() + memory.num_elements());
    batch.memory_lengths.assign(memory.shape()[0], memory.shape()[1]);
  }
  return batch;
}

std::vector<float> LoadedTestModel::Run(const Batch& batch, ModelOutput wanted,
                                        int num_threads) const {
  const int64_t width = info().d_model;
  std::vector<ModelSequence> sequences;
  std::vector<int64_t> first_outputs = {0};
  int64_t row = 0;
  int64_t memory_row = 0;
  for (size_t i = 0; i < batch.lengths.size(); ++i) {
    const int64_t memory_len = batch.memory.empty() ? 0 : batch.memory_lengths[i];
    sequences.push_back({.first_row = row,
                         .seq_len = batch.lengths[i],
                         .first_memory_row = memory_row,
                         .memory_len = memory_len,
                         .wanted = wanted});
    const Model::OutputExtents extents = model_->OutputOf(wanted, batch.lengths[i]);
    sequences.back().output = {nullptr, Dtype::kF32, extents.rows, extents.width, extents.width};
    first_outputs.push_back(first_outputs.back() + extents.rows * extents.width);
    row += batch.lengths[i];
    memory_row += memory_len;
  }
  std::vector<float> output(first_outputs.back());
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].output.data = output.data() + first_outputs[i];
  }
  ModelCall call{.hidden_states = {batch.rows.data(), Dtype::kF32, row, width, width},
                 .sequences = sequences};
  if (!batch.memory.empty()) {
    call.memory = MatrixView{batch.memory.data(), Dtype::kF32, memory_row, width, width};
  }
  ThreadPool pool(num_threads);
  Workspace workspace(pool);
  return model_->Forward(call, workspace).ok() ? output : std::vector<float>();
}

std::vector<float> LoadedTestModel::Forward(const TestForward& run, int num_threads) const {
  return Run(MakeBatch(run), run.wanted, num_threads);
}

std::vector<float> LoadedTestModel::ForwardOneByOne(const TestForward& run) const {
  const Batch batch = MakeBatch(run);
  const int64_t width = info().d_model;
  std::vector<float> output;
  int64_t row = 0;
  for (const int64_t length : batch.lengths) {
    Batch alone;
    alone.rows.assign(&batch.rows[row * width], &batch.rows[row * width] + length * width);
    alone.lengths = {length};
    const std::vector<float> rows = Run(alone, run.wanted, 1);
    output.insert(output.end(), rows.begin(), rows.end());
    row += length;
  }
  return output;
}

std::vector<float> LoadedTestModel::Weights(const std::string& ids, int64_t layer,
                                            const std::vector<int64_t>& heads) const {
  const Batch batch = MakeBatch({.ids = ids});
  const int64_t width = info().d_model;
  const int64_t rows = batch.lengths.front();
  const int64_t num_heads =
      heads.empty() ? info().layers[layer].shape.num_heads : std::ssize(heads);
  const WeightsChoice choice{.layers = {layer}, .heads = heads};
  std::vector<float> hidden(batch.rows.size());
  std::vector<float> weights(batch.lengths.size() * num_heads * rows * rows);
  std::vector<ModelSequence> sequences;
  for (int64_t i = 0; i < std::ssize(batch.lengths); ++i) {
    sequences.push_back({.first_row = i * rows,
                         .seq_len = rows,
                         .output = {&hidden[i * rows * width], Dtype::kF32, rows, width, width},
                         .weights_choice = &choice,
                         .weights = {&weights[i * num_heads * rows * rows]}});
  }
  ThreadPool pool(1);
  Workspace workspace(pool);
  const ModelCall call{.hidden_states = {batch.rows.data(), Dtype::kF32,
                                         rows * std::ssize(batch.lengths), width, width},
                       .sequences = sequences};
  return model_->Forward(call, workspace).ok() ? weights : std::vector<float>();
}

double LargestDifference(const Tensor& expected, const std::vector<float>& actual) {
  return LargestDifference(ToDoubles(expected), {actual.begin(), actual.end()});
}

}  // namespace attention
