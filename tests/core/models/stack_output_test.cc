// What weights of each dtype cost in accuracy, and which outputs of a stack agree with which.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
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

/// Sequences whose lengths are no multiples of what a thread copies at a time.
class ThreadedOutputTest : public ::testing::Test {
 protected:
  static constexpr int64_t kLengths[] = {129, 1, 150, 7};
  static constexpr int64_t kRows = 287;

  using Ask = std::function<void(ModelSequence& sequence, int64_t index)>;
  using Outputs = std::vector<std::vector<float>>;  // of each sequence

  /// Runs sequences of these lengths, which begin with row `first_row` of rows_. `ask` says what a
  /// sequence wants.
  void Run(const Model& model, int64_t first_row, std::span<const int64_t> lengths, int num_threads,
           const Ask& ask) const {
    const int64_t width = model.info().d_model;
    std::vector<ModelSequence> sequences;
    int64_t row = 0;
    for (const int64_t length : lengths) {
      sequences.push_back({.first_row = row, .seq_len = length});
      ask(sequences.back(), std::ssize(sequences) - 1);
      row += length;
    }
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    const float* rows = rows_.as<float>() + first_row * width;
    EXPECT_THAT(model.Forward({.hidden_states = {rows, Dtype::kF32, row, width, width},
                               .sequences = sequences},
                              workspace),
                IsOk());
  }

  Outputs Logits(const Model& model, ModelOutput wanted, int64_t first_row,
                 std::span<const int64_t> lengths, int num_threads) const {
    Outputs logits(lengths.size());
    Run(model, first_row, lengths, num_threads, [&](ModelSequence& s, int64_t i) {
      const auto [rows, width] = model.OutputOf(wanted, s.seq_len);
      logits[i].resize(rows * width);
      s.wanted = wanted;
      s.output = {logits[i].data(), Dtype::kF32, rows, width, width};
    });
    return logits;
  }

  /// [heads, rows, rows] of layer 1.
  Outputs Weights(const Model& model, const std::vector<int64_t>& heads, int num_threads) const {
    const WeightsChoice choice{.layers = {1}, .heads = heads};
    const int64_t num_heads =
        heads.empty() ? model.info().layers[1].shape.num_heads : std::ssize(heads);
    Outputs weights(std::size(kLengths));
    const int64_t width = model.info().d_model;
    Tensor hidden(Dtype::kF32, {kRows, width});
    Run(model, 0, kLengths, num_threads, [&](ModelSequence& s, int64_t i) {
      weights[i].resize(num_heads * s.seq_len * s.seq_len);
      s.output = {hidden.as<float>() + s.first_row * width, Dtype::kF32, s.seq_len, width, width};
      s.weights_choice = &choice;
      s.weights = {weights[i].data()};
    });
    return weights;
  }

  Tensor rows_ = SeededTensor(3, Dtype::kF32, {kRows, 36});
};

TEST_F(ThreadedOutputTest, EveryChosenHeadIsThatOfAllHeads) {
  const LoadedTestModel gpt2("models/gpt2");
  const std::vector<int64_t> heads = {2, 0};
  const Outputs all = Weights(gpt2.model(), {}, 1);
  const Outputs chosen = Weights(gpt2.model(), heads, 3);
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    std::vector<float> expected;
    for (const int64_t head : heads) {
      const auto begin = all[i].begin() + head * kLengths[i] * kLengths[i];
      expected.insert(expected.end(), begin, begin + kLengths[i] * kLengths[i]);
    }
    EXPECT_TRUE(chosen[i] == expected) << "sequence " << i;
  }
}

TEST_F(ThreadedOutputTest, EveryRowOfLogitsIsTheLastOfThoseUpToIt) {
  for (const WeightsDtype dtype : {WeightsDtype::kF32, WeightsDtype::kBf16}) {
    const LoadedTestModel gpt2("models/gpt2", dtype);
    const int64_t vocab = gpt2.info().vocab_size;
    const Outputs all = Logits(gpt2.model(), ModelOutput::kLogits, 0, kLengths, 3);
    int64_t first_row = 0;
    for (size_t i = 0; i < std::size(kLengths); ++i) {
      for (int64_t row = 0; row < kLengths[i]; ++row) {
        const int64_t length = row + 1;
        const Outputs last =
            Logits(gpt2.model(), ModelOutput::kLastLogits, first_row, {&length, 1}, 1);
        EXPECT_TRUE(std::equal(last[0].begin(), last[0].end(), all[i].begin() + row * vocab))
            << "row " << row << " of sequence " << i;
      }
      first_row += kLengths[i];
    }
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
