// Stacks that ask between slices whether to continue.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/layers/rows_per_slice.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;

/// Many short sequences of a small model of one block: its feed-forward layer is several slices.
class SlicedStackTest : public ::testing::TestWithParam<std::string> {
 protected:
  SlicedStackTest() : loaded_(GetParam()) {
    const int64_t width = loaded_.info().d_model;
    while (loaded_.model().Flops(num_rows_, 0, 0, has_memory() ? num_rows_ : 0) <
           2.5 * kSliceFlops) {
      num_rows_ += 128;
    }
    rows_ = SeededTensor(3, Dtype::kF32, {num_rows_, width});
  }
  bool has_memory() const { return loaded_.info().has_encoder; }

  /// The first rows of the batch, as many as `output` has.
  absl::Status Run(Tensor& output, Workspace& workspace, const std::function<bool()>& yield) const {
    const int64_t width = loaded_.info().d_model;
    const MatrixView rows{rows_.data(), Dtype::kF32, output.shape()[0], width, width};
    std::vector<ModelSequence> sequences;
    for (int64_t row = 0; row < rows.rows; row += 128) {
      sequences.push_back(
          {.first_row = row,
           .seq_len = 128,
           .first_memory_row = row,
           .memory_len = has_memory() ? 128 : 0,
           .output = {output.as<float>() + row * width, Dtype::kF32, 128, width, width}});
    }
    return loaded_.model().Forward(
        {.hidden_states = rows,
         .memory = has_memory() ? std::optional<MatrixView>(rows) : std::nullopt,
         .sequences = sequences,
         .yield = yield},
        workspace);
  }

  LoadedTestModel loaded_;
  int64_t num_rows_ = 0;
  Tensor rows_;
};

TEST_P(SlicedStackTest, IsAskedAfterEverySliceAndChangesNoBit) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  Workspace inner_workspace(pool);
  Tensor whole(Dtype::kF32, rows_.shape());
  ASSERT_THAT(Run(whole, workspace, nullptr), IsOk());
  const auto equals_whole = [&](const Tensor& other) {
    return std::equal(other.as<float>(), other.as<float>() + other.num_elements(),
                      whole.as<float>());
  };
  Tensor sliced(Dtype::kF32, rows_.shape());
  Tensor inner(Dtype::kF32, {256, loaded_.info().d_model});
  int asked = 0;
  const auto yield = [&] {
    if (++asked == 3) {
      EXPECT_THAT(Run(inner, inner_workspace, nullptr), IsOk());
    }
    return true;
  };
  ASSERT_THAT(Run(sliced, workspace, yield), IsOk());
  EXPECT_TRUE(equals_whole(sliced));
  EXPECT_TRUE(equals_whole(inner));
  const double flops = loaded_.model().Flops(num_rows_, 128.0 * static_cast<double>(num_rows_), 0,
                                             has_memory() ? num_rows_ : 0);
  EXPECT_GE(asked, flops / kSliceFlops);
  int count = 0;
  EXPECT_THAT(Run(sliced, workspace, [&] { return ++count < 3; }),
              StatusIs(absl::StatusCode::kCancelled, Eq("cancelled between slices")));
  EXPECT_EQ(count, 3);
}

INSTANTIATE_TEST_SUITE_P(Models, SlicedStackTest,
                         ::testing::Values("models/gpt2-unscaled", "models/llama-bias",
                                           "models/torch_transformer-no-bias"),
                         [](const auto& test) {
                           std::string name = test.param.substr(7);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SlicedLogitsTest, IsAskedForEveryPart) {
  const LoadedTestModel gpt2("models/gpt2");
  const int64_t width = gpt2.info().d_model;
  const int64_t vocab_size = gpt2.info().vocab_size;
  const Tensor rows = SeededTensor(3, Dtype::kF32, {640, width});
  Tensor logits(Dtype::kF32, {640, vocab_size});
  const auto asked_for = [&](ModelOutput wanted) {
    const auto [out_rows, out_width] = gpt2.model().OutputOf(wanted, 640);
    const ModelSequence sequence{
        .seq_len = 640,
        .wanted = wanted,
        .output = {logits.data(), Dtype::kF32, out_rows, out_width, out_width}};
    ThreadPool pool(1);
    Workspace workspace(pool);
    int asked = 0;
    EXPECT_THAT(
        gpt2.model().Forward({.hidden_states = {rows.data(), Dtype::kF32, 640, width, width},
                              .sequences = {&sequence, 1},
                              .yield = [&] { return ++asked > 0; }},
                             workspace),
        IsOk());
    return asked;
  };
  EXPECT_EQ(asked_for(ModelOutput::kLogits), asked_for(ModelOutput::kHiddenStates) + 10);
}

}  // namespace
}  // namespace attention
