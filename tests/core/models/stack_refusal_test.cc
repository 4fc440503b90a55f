// What a run of a whole stack refuses before it computes anything, and its words.
#include <functional>
#include <string>
#include <vector>

#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

/// A run of two sequences of 3 and 2 rows, before it is spoiled.
struct StackRunOfTwo {
  explicit StackRunOfTwo(const Model& model) : width(model.info().d_model) {
    hidden_states = SeededTensor(1, Dtype::kF32, {5, width});
    output = Tensor(Dtype::kF32, {5, width});
    float* rows = output.as<float>();
    sequences = {
        {.seq_len = 3, .output = {rows, Dtype::kF32, 3, width, width}},
        {.first_row = 3, .seq_len = 2, .output = {rows + 3 * width, Dtype::kF32, 2, width, width}}};
    call.hidden_states = {hidden_states.data(), Dtype::kF32, 5, width, width};
  }

  absl::Status On(const Model& model) {
    ThreadPool pool(1);
    Workspace workspace(pool);
    call.sequences = sequences;
    return model.Forward(call, workspace);
  }

  int64_t width;
  Tensor hidden_states, output;
  std::vector<ModelSequence> sequences;
  ModelCall call;
};

TEST(StackRefusalTest, NamesWhatIsWrong) {
  const LoadedTestModel loaded("models/gpt2-unscaled");
  const Model& model = loaded.model();
  const int64_t heads = model.info().layers[0].shape.num_heads;
  const WeightsChoice layer_beyond{.layers = {std::ssize(model.info().layers)}};
  const WeightsChoice head_beyond{.layers = {0}, .heads = {heads}};
  const WeightsChoice layer_twice{.layers = {0, 0}};
  struct WrongRun {
    std::function<void(StackRunOfTwo& run)> spoil;
    std::string text;
  };
  const WrongRun cases[] = {
      {[](StackRunOfTwo& run) { run.sequences[1].first_row = 2; },
       "sequence 1: first_row: expected 3, found 2"},
      {[](StackRunOfTwo& run) { run.sequences[1].seq_len = 3; },
       "sequence 1: seq_len: expected 1 to 2, found 3"},
      {[](StackRunOfTwo& run) { run.sequences[1].seq_len = 0; },
       "sequence 1: seq_len: expected 1 to 2, found 0"},
      {[](StackRunOfTwo& run) { run.sequences.pop_back(); },
       "rows of all sequences: expected 5, found 3"},
      {[](StackRunOfTwo& run) { run.sequences[1].output.rows = 1; },
       "sequence 1: output rows: expected 2, found 1"},
      {[](StackRunOfTwo& run) { run.call.hidden_states.cols = 7; },
       "hidden_states columns: expected " + std::to_string(model.info().d_model) + ", found 7"},
      {[](StackRunOfTwo& run) { run.call.memory = run.call.hidden_states; },
       "memory: expected none of a model without an encoder, found some"},
      {[&](StackRunOfTwo& run) {
         run.sequences[0].weights_choice = &layer_beyond;
         run.sequences[0].weights = {nullptr};
       },
       "sequence 0: weights_choice.layers: expected 0 to " +
           std::to_string(layer_beyond.layers[0] - 1) + ", found " +
           std::to_string(layer_beyond.layers[0])},
      {[&](StackRunOfTwo& run) {
         run.sequences[0].weights_choice = &layer_twice;
         run.sequences[0].weights = {nullptr, nullptr};
       },
       "sequence 0: weights_choice.layers: expected ascending layers, each once, found 0 after 0"},
      {[&](StackRunOfTwo& run) {
         run.sequences[0].weights_choice = &head_beyond;
         run.sequences[0].weights = {nullptr};
       },
       "sequence 0: weights_choice.heads: expected 0 to " + std::to_string(heads - 1) + ", found " +
           std::to_string(heads)},
  };
  for (const WrongRun& wrong : cases) {
    StackRunOfTwo run(model);
    wrong.spoil(run);
    EXPECT_THAT(run.On(model), StatusIs(absl::StatusCode::kInvalidArgument, wrong.text));
  }
  EXPECT_THAT(StackRunOfTwo(model).On(model), IsOk());
}

TEST(StackRefusalTest, ALayerAloneIsNoStack) {
  const auto model = Model::CreateSeeded(
      {.name = "one", .d_model = 32, .num_heads = 2, .num_kv_heads = 2, .head_dim = 16});
  ASSERT_THAT(model.status(), IsOk());
  EXPECT_THAT(StackRunOfTwo(**model).On(**model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "model: expected one with a stack, found a layer alone"));
}

}  // namespace
}  // namespace attention
