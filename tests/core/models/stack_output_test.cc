// What weights of each dtype cost in accuracy, and which outputs of a stack agree with which.
#include <string>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/reference/reference.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

TEST(WeightsDtypeTest, CostsWhatItMay) {
  for (const char* checkpoint : {"models/gpt2", "models/llama-bias", "models/gemma2", "models/bert",
                                 "models/phi3", "models/gpt_neox", "models/torch_transformer"}) {
    const LoadedTestModel exact(checkpoint);
    const TestForward run = exact.HasCase("input_ids")
                                ? TestForward{.ids = "input_ids"}
                                : TestForward{.rows = "target", .memory = "source"};
    const std::vector<float> expected = exact.Forward(run);
    const auto error_of = [&](WeightsDtype dtype) {
      const LoadedTestModel rounded(checkpoint, dtype);
      const std::vector<float> actual = rounded.Forward(run);
      EXPECT_EQ(actual, rounded.Forward(run, 2));
      const bool multiplies = dtype == WeightsDtype::kInt8
                                  ? MultipliesInt8()
                                  : ComputeDtype(Dtype::kBf16) == Dtype::kBf16;
      if (multiplies) {  // lesser processors hold the rounded weights as f32
        EXPECT_LT(rounded.info().weights_bytes, exact.info().weights_bytes);
      }
      return reference::RelativeL2({actual.begin(), actual.end()},
                                   {expected.begin(), expected.end()});
    };
    EXPECT_LE(error_of(WeightsDtype::kBf16), 0.05) << checkpoint;
    EXPECT_LE(error_of(WeightsDtype::kInt8), 0.1) << checkpoint;
  }
}

TEST(WeightsDtypeTest, PooledRowsAreThoseOfTheHiddenStates) {
  const LoadedTestModel bert("models/bert");
  const std::vector<float> hidden = bert.Forward({.ids = "input_ids"});
  const std::vector<float> mean =
      bert.Forward({.ids = "input_ids", .wanted = ModelOutput::kMeanPooled});
  const std::vector<float> first =
      bert.Forward({.ids = "input_ids", .wanted = ModelOutput::kFirstPooled});
  const int64_t width = bert.info().d_model;
  const int64_t rows = bert.case_tensor("input_ids").shape()[1];
  ASSERT_EQ(std::ssize(mean), 2 * width);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum += hidden[(b * rows + r) * width + i];
      }
      EXPECT_NEAR(mean[b * width + i], sum / static_cast<double>(rows), 1e-6);
      EXPECT_EQ(first[b * width + i], hidden[b * rows * width + i]);
    }
  }
}

TEST(WeightsDtypeTest, LastLogitsAreTheLastOfAll) {
  const LoadedTestModel gemma("models/gemma2");
  const std::vector<float> all =
      gemma.Forward({.ids = "input_ids", .wanted = ModelOutput::kLogits});
  const std::vector<float> last =
      gemma.Forward({.ids = "input_ids", .wanted = ModelOutput::kLastLogits});
  const int64_t vocab = gemma.info().vocab_size;
  const int64_t rows = gemma.case_tensor("input_ids").shape()[1];
  for (int64_t b = 0; b < 2; ++b) {
    const auto row = all.begin() + (b * rows + rows - 1) * vocab;
    EXPECT_TRUE(std::equal(row, row + vocab, last.begin() + b * vocab));
  }
}

TEST(WeightsDtypeTest, ChosenHeadsAreThoseOfAllHeads) {
  const LoadedTestModel gpt2("models/gpt2");
  const std::vector<float> all = gpt2.Weights("input_ids", 1, {});
  const std::vector<float> chosen = gpt2.Weights("input_ids", 1, {2, 0});
  const int64_t rows = gpt2.case_tensor("input_ids").shape()[1];
  const int64_t head = rows * rows;
  for (int64_t b = 0; b < 2; ++b) {
    EXPECT_TRUE(
        std::equal(&chosen[b * 2 * head], &chosen[b * 2 * head] + head, &all[(b * 3 + 2) * head]));
    EXPECT_TRUE(std::equal(&chosen[(b * 2 + 1) * head], &chosen[(b * 2 + 1) * head] + head,
                           &all[b * 3 * head]));
  }
}

TEST(ForwardTest, StopsBetweenLayersWhenNobodyWaits) {
  const LoadedTestModel gpt2("models/gpt2");
  const int64_t width = gpt2.info().d_model;
  std::vector<float> rows(3 * width, 0.5f);
  std::vector<float> output(rows.size());
  const ModelSequence sequence{.seq_len = 3,
                               .output = {output.data(), Dtype::kF32, 3, width, width}};
  ThreadPool pool(1);
  Workspace workspace(pool);
  int asked = 0;
  const ModelCall call{.hidden_states = {rows.data(), Dtype::kF32, 3, width, width},
                       .sequences = {&sequence, 1},
                       .yield = [&] { return ++asked < 3; }};
  EXPECT_THAT(gpt2.model().Forward(call, workspace),
              StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace attention
