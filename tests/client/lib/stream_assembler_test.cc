#include "client/lib/stream_assembler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/lib/answer_shape.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace attention {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBlockWidth = 3;

Tensor Filled(Shape shape, float value) {
  Tensor tensor(Dtype::kF32, std::move(shape));
  std::fill_n(tensor.as<float>(), tensor.num_elements(), value);
  return tensor;
}

RowBlock Rows(int64_t sequence, int64_t first_row, int64_t rows, float value) {
  return {sequence, first_row, Filled({rows, kBlockWidth}, value)};
}

using Kind = ScoresBlock::Kind;

ScoresBlock Scores(Kind kind, int64_t layer, int64_t head, RowBlock block,
                   std::vector<int32_t> keys = {}) {
  return {kind, layer, head, std::move(block), std::move(keys)};
}

/// Two padded sequences of 3 and 2 rows in [2, 3, kBlockWidth].
class StreamAssemblerTest : public ::testing::Test {
 protected:
  StreamAssemblerTest() : input_(Dtype::kF32, {2, 3, kBlockWidth}) {
    request_.input = HiddenStatesInput{&input_, {3, 2}, nullptr, {}};
    assembler_.emplace(*StreamAssembler::Create(request_));
  }

  /// Begins again with a request for these scores.
  void Ask(std::initializer_list<Kind> kinds) {
    for (const Kind kind : kinds) {
      kind == Kind::kWeights ? request_.options.set_return_weights(true)
                             : request_.options.set_return_log_sum_exp(true);
    }
    assembler_.emplace(*StreamAssembler::Create(request_));
  }

  Tensor input_;
  AttendRequest request_;
  std::optional<StreamAssembler> assembler_;
  AttendResult result_;
};

TEST_F(StreamAssemblerTest, PutsRowsInPlaceAndLeavesPaddingZero) {
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 5.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 1, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(0, 1, 2, 2.0f)), IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_THAT(result_.output.shape(), ElementsAre(2, 3, kBlockWidth));
  EXPECT_THAT(ValuesOf(result_.output),
              ElementsAre(1, 1, 1, 2, 2, 2, 2, 2, 2, 5, 5, 5, 5, 5, 5, 0, 0, 0));
}

TEST_F(StreamAssemblerTest, RefusesGapsRepeatsAndRowsBeyondTheEnd) {
  EXPECT_THAT(assembler_->Add(Rows(0, 1, 1, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("first row")));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 2, 1.0f)), IsOk());
  EXPECT_THAT(assembler_->Add(Rows(0, 0, 2, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("first row")));
  EXPECT_THAT(
      assembler_->Add(Rows(0, 2, 2, 1.0f)),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a sequence: expected 3, found 4")));
}

TEST_F(StreamAssemblerTest, RefusesUnknownSequencesAndOtherWidths) {
  EXPECT_THAT(assembler_->Add(Rows(2, 0, 1, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("sequence")));
  EXPECT_THAT(assembler_->Add(Rows(-1, 0, 1, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("sequence")));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 1, 1.0f)), IsOk());
  EXPECT_THAT(assembler_->Add(RowBlock{0, 1, Filled({1, kBlockWidth + 1}, 1.0f)}),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: a block: expected [1, 3], found [1, 4]"));
}

TEST_F(StreamAssemblerTest, RefusesBlocksOfAnotherRankOrWithoutRows) {
  for (const Shape& shape : {Shape{3}, Shape{1, 3, 1}}) {
    EXPECT_THAT(assembler_->Add(RowBlock{0, 0, Filled(shape, 1.0f)}),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("a block: expected [")));
  }
  EXPECT_THAT(assembler_->Add(RowBlock{0, 0, Filled({}, 1.0f)}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a block, at least")));
  // Its width would be that of the output.
  request_.input = TokenIdsInput{{1, 2, 3}, {}};
  assembler_.emplace(*StreamAssembler::Create(request_));
  EXPECT_THAT(assembler_->Add(RowBlock{0, 0, Tensor(Dtype::kF32, {0, int64_t{1} << 40})}),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: rows of a block, at least: expected 1, found 0"));
  ASSERT_THAT(assembler_->Add(RowBlock{0, 0, Tensor(Dtype::kF32, {1, 0})}), IsOk());
  EXPECT_THAT(assembler_->Add(Rows(0, 1, 1, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expected [1, 0], found [1, 3]")));
}

TEST_F(StreamAssemblerTest, AWholeAnswerHasTheShapeOfItsRequest) {
  const auto check = [this](Shape shape) {
    result_.output = Tensor(Dtype::kF32, std::move(shape));
    return CheckAnswer(request_, result_);
  };
  EXPECT_THAT(check({2, 3, kBlockWidth}), IsOk());
  EXPECT_THAT(check({2, 3, 4}),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: output: expected [2, 3, 3], found [2, 3, 4]"));
  request_.input = TokenIdsInput{{1, 2, 3}, {}};
  EXPECT_THAT(check({3, 7}), IsOk());
  EXPECT_THAT(check({3}), StatusIs(absl::StatusCode::kInternal,
                                   "malformed answer: output: expected [3, any], found [3]"));
  EXPECT_THAT(check({2, 7}), StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
  request_.input = TextInput{{"without tokens"}};
  EXPECT_THAT(check({3, 7}), StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
}

TEST_F(StreamAssemblerTest, AWholeAnswerHasThePartsOfItsRequest) {
  AttendRequest request;
  request.input = TokenIdsInput{{1, 2, 3}, {}};
  AttendResult result;
  result.output = Filled({3, 4}, 1.0f);
  const auto expect = [&](absl::string_view text) {
    EXPECT_THAT(CheckAnswer(request, result),
                StatusIs(absl::StatusCode::kInternal, absl::StrCat("malformed answer: ", text)));
  };
  ASSERT_THAT(CheckAnswer(request, result), IsOk());
  request.options.set_return_weights(true);
  expect("number of tables of weights: expected 1, found 0");
  result.weights.push_back(Filled({2, 1, 3}, 1.0f));
  expect("weights: expected [any, 3, any], found [2, 1, 3]");
  result.weights[0] = Filled({2, 3, 3}, 1.0f);
  ASSERT_THAT(CheckAnswer(request, result), IsOk());

  result.log_sum_exp.push_back(Filled({2, 3}, 1.0f));
  expect("number of tables of log_sum_exp: expected 0, found 1");
  request.options.set_return_log_sum_exp(true);
  ASSERT_THAT(CheckAnswer(request, result), IsOk());

  request.options.set_weights_top_k(2);
  result.top_weights.push_back({Filled({2, 3}, 1.0f), {}});
  expect("top_weights: expected [any, 3, any], found [2, 3]");
  result.top_weights[0].weights = Filled({2, 3, 2}, 1.0f);
  ASSERT_THAT(CheckAnswer(request, result), IsOk());

  request.weights_choice.add_layers(5);
  request.weights_choice.add_heads(1);
  expect("number of tables of layer_weights: expected 1, found 0");
  result.layer_weights.push_back({4, 0, Filled({1, 3, 3}, 1.0f)});
  expect("layer_weights[0]: expected layer 5 of sequence 0, found layer 4 of sequence 0");
  result.layer_weights[0].layer = 5;
  ASSERT_THAT(CheckAnswer(request, result), IsOk());
  result.layer_weights[0].weights = Filled({2, 3, 3}, 1.0f);
  expect("layer_weights: expected [1, any, any], found [2, 3, 3]");

  result.tokens.emplace_back();
  expect("number of lists of tokens: expected 0, found 1");
}

TEST_F(StreamAssemblerTest, AWholeAnswerHasTheHeadsOfItsQuery) {
  const Tensor query = Filled({3, 2, 4}, 1.0f);
  AttendRequest request;
  request.input = QueryKeyValueInput{&query, &query, &query};
  request.options.set_return_weights(true);
  request.options.set_return_log_sum_exp(true);
  request.options.set_weights_top_k(1);
  AttendResult result;
  result.output = Filled({3, 2, 4}, 1.0f);
  result.weights.push_back(Filled({1, 3, 3}, 1.0f));
  result.log_sum_exp.push_back(Filled({4, 3}, 1.0f));
  result.top_weights.push_back({Filled({3, 3, 1}, 1.0f), {}});
  const auto expect = [&](absl::string_view text) {
    EXPECT_THAT(CheckAnswer(request, result),
                StatusIs(absl::StatusCode::kInternal, absl::StrCat("malformed answer: ", text)));
  };
  expect("weights: expected [2, 3, any], found [1, 3, 3]");
  result.weights[0] = Filled({2, 3, 3}, 1.0f);
  expect("log_sum_exp: expected [2, 3], found [4, 3]");
  result.log_sum_exp[0] = Filled({2, 3}, 1.0f);
  expect("top_weights: expected [2, 3, any], found [3, 3, 1]");
  result.top_weights[0].weights = Filled({2, 3, 1}, 1.0f);
  EXPECT_THAT(CheckAnswer(request, result), IsOk());
}

TEST_F(StreamAssemblerTest, MissesRowsThatNeverCame) {
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  EXPECT_THAT(
      assembler_->Finish(result_),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a sequence: expected 2, found 0")));
}

TEST_F(StreamAssemblerTest, RowsThatAreOnlyCountedFollowEachOther) {
  request_.options.set_return_weights(true);
  assembler_.emplace(*StreamAssembler::Create(request_, /*has_output=*/true, /*has_options=*/true,
                                              /*joins=*/false));
  const auto missing = [this](absl::string_view text) {
    EXPECT_THAT(assembler_->Finish(result_),
                StatusIs(absl::StatusCode::kInternal, absl::StrCat("malformed answer: ", text)));
  };
  const auto add_weights = [this](int64_t sequence, int64_t first_row, int64_t rows) {
    return assembler_->Add(
        Scores(Kind::kWeights, 0, 0, {sequence, first_row, Filled({rows, 3}, 1)}));
  };
  const auto wrong = StatusIs(absl::StatusCode::kInternal, HasSubstr("first row of a block"));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 2, 1.0f)), IsOk());
  EXPECT_THAT(assembler_->Add(Rows(0, 0, 2, 1.0f)), wrong);
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  missing("rows of a sequence: expected 3, found 2");
  ASSERT_THAT(assembler_->Add(Rows(0, 2, 1, 1.0f)), IsOk());
  missing("weights: expected those that were asked for, found none");
  ASSERT_THAT(add_weights(0, 0, 1), IsOk());
  EXPECT_THAT(add_weights(0, 2, 1), wrong);
  ASSERT_THAT(add_weights(1, 0, 2), IsOk());
  missing("rows of a head of weights: expected 3, found 1");
  ASSERT_THAT(add_weights(0, 1, 2), IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_EQ(result_.output.num_elements(), 0);
  EXPECT_TRUE(result_.weights.empty());
}

TEST_F(StreamAssemblerTest, PutsTheHeadsOfEachSequenceTogether) {
  Ask({Kind::kWeights});
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  // Heads interleaved block by block, as a causal stream sends them.
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 0, Filled({2, 3}, 0.1f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 1, {0, 0, Filled({2, 3}, 0.2f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 2, Filled({1, 3}, 0.3f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 1, {0, 2, Filled({1, 3}, 0.4f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {1, 0, Filled({2, 2}, 0.5f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 1, {1, 0, Filled({2, 2}, 0.5f)})), IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  ASSERT_EQ(result_.weights.size(), 2u);
  EXPECT_THAT(result_.weights[0].shape(), ElementsAre(2, 3, 3));
  EXPECT_THAT(ValuesOf(result_.weights[0]),
              ElementsAre(.1f, .1f, .1f, .1f, .1f, .1f, .3f, .3f, .3f,  //
                          .2f, .2f, .2f, .2f, .2f, .2f, .4f, .4f, .4f));
  EXPECT_THAT(result_.weights[1].shape(), ElementsAre(2, 2, 2));
  EXPECT_THAT(ValuesOf(result_.weights[1]), Each(0.5f));
}

TEST_F(StreamAssemblerTest, MissesWeightsThatNeverCame) {
  Ask({Kind::kWeights});
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 0, Filled({2, 3}, 0.1f)})), IsOk());
  EXPECT_THAT(assembler_->Finish(result_),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rows of a head of weights: expected 3, found 2")));
}

TEST_F(StreamAssemblerTest, PutsLogSumExpAndLargestWeightsTogether) {
  request_.options.set_weights_top_k(2);
  Ask({Kind::kLogSumExp});
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {0, 0, Filled({2}, 1.5f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {0, 2, Filled({1}, 2.5f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {1, 0, Filled({2}, 3.5f)})), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kTopWeights, 0, 0, {0, 0, Filled({3, 2}, 0.5f)},
                                     {0, 1, 1, 2, 2, 0})),
              IsOk());
  ASSERT_THAT(
      assembler_->Add(Scores(Kind::kTopWeights, 0, 0, {1, 0, Filled({1, 2}, 0.25f)}, {1, 0})),
      IsOk());
  ASSERT_THAT(
      assembler_->Add(Scores(Kind::kTopWeights, 0, 0, {1, 1, Filled({1, 2}, 0.75f)}, {0, -1})),
      IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  ASSERT_EQ(result_.log_sum_exp.size(), 2u);
  EXPECT_THAT(result_.log_sum_exp[0].shape(), ElementsAre(1, 3));
  EXPECT_THAT(ValuesOf(result_.log_sum_exp[0]), ElementsAre(1.5f, 1.5f, 2.5f));
  ASSERT_EQ(result_.top_weights.size(), 2u);
  EXPECT_THAT(result_.top_weights[1].weights.shape(), ElementsAre(1, 2, 2));
  EXPECT_THAT(ValuesOf(result_.top_weights[1].weights), ElementsAre(.25f, .25f, .75f, .75f));
  EXPECT_THAT(result_.top_weights[1].keys, ElementsAre(1, 0, 0, -1));
  EXPECT_TRUE(result_.weights.empty());
}

TEST_F(StreamAssemblerTest, MissesLogSumExpThatNeverCame) {
  Ask({Kind::kLogSumExp});
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {0, 0, Filled({3}, 1.5f)})), IsOk());
  EXPECT_THAT(assembler_->Finish(result_),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("log_sum_exp: expected those that were asked for, found none")));
}

v1::TokenizedText Tokens(const std::vector<int32_t>& ids) {
  v1::TokenizedText tokens;
  for (const int32_t id : ids) {
    tokens.add_ids(id);
    tokens.add_tokens("t");
  }
  return tokens;
}

TEST_F(StreamAssemblerTest, TakesTheRowsOfTextsOnceTheirTokensAreThere) {
  request_.input = TextInput{{"one", "", "three"}};
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Add(TokensBlock{0, 0, Tokens({7})}), IsOk());
  ASSERT_THAT(assembler_->Add(TokensBlock{2, 0, Tokens({8, 9})}), IsOk());
  EXPECT_THAT(assembler_->Add(TokensBlock{2, 1, Tokens({1})}),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: first token of a block: expected 2, found 1"));
  EXPECT_THAT(assembler_->Add(TokensBlock{3, 0, Tokens({1})}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("sequence of tokens")));
  ASSERT_THAT(assembler_->Add(TokensBlock{2, 2, Tokens({3})}), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(2, 0, 3, 3.0f)), IsOk());
  EXPECT_THAT(assembler_->Add(TokensBlock{0, 1, Tokens({1})}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expected before all rows")));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 1, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_THAT(ValuesOf(result_.output), ElementsAre(1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3));
  ASSERT_EQ(result_.tokens.size(), 3u);
  EXPECT_THAT(result_.tokens[2].ids(), ElementsAre(8, 9, 3));
}

TEST_F(StreamAssemblerTest, PutsPooledRowsBelowEachOther) {
  std::get<HiddenStatesInput>(request_.input).lengths = {0, 2};
  request_.model_output = v1::CLS_POOLED;
  assembler_.emplace(*StreamAssembler::Create(request_));
  EXPECT_THAT(assembler_->Add(Rows(0, 0, 1, 1.0f)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a sequence: expected 0")));
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 1, 2.0f)), IsOk());
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_THAT(result_.output.shape(), ElementsAre(2, kBlockWidth));
  EXPECT_THAT(ValuesOf(result_.output), ElementsAre(0, 0, 0, 2, 2, 2));
}

TEST_F(StreamAssemblerTest, PutsTheChosenHeadsOfEachLayerTogether) {
  for (const int64_t layer : {1, 4}) {
    request_.weights_choice.add_layers(layer);
  }
  request_.weights_choice.add_heads(2);
  request_.weights_choice.add_heads(5);
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  for (const int64_t sequence : {0, 1}) {
    const int64_t rows = sequence == 0 ? 3 : 2;
    for (const int64_t layer : {1, 4}) {
      for (const int64_t head : {2, 5}) {
        const float value = static_cast<float>(100 * sequence + 10 * layer + head);
        ASSERT_THAT(assembler_->Add(Scores(Kind::kLayerWeights, layer, head,
                                           {sequence, 0, Filled({rows, rows}, value)})),
                    IsOk());
      }
    }
  }
  EXPECT_THAT(assembler_->Add(Scores(Kind::kLayerWeights, 2, 2, {0, 0, Filled({3, 3}, 0.5f)})),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: layer_weights: expected those of a chosen layer and "
                       "head, found layer 2, head 2"));
  EXPECT_THAT(assembler_->Add(Scores(Kind::kLayerWeights, 1, 3, {0, 0, Filled({3, 3}, 0.5f)})),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: layer_weights: expected those of a chosen layer and "
                       "head, found layer 1, head 3"));
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  ASSERT_EQ(result_.layer_weights.size(), 4u);
  EXPECT_EQ(result_.layer_weights[1].layer, 4);
  EXPECT_EQ(result_.layer_weights[1].sequence, 0);
  EXPECT_THAT(result_.layer_weights[3].weights.shape(), ElementsAre(2, 2, 2));
  EXPECT_THAT(ValuesOf(result_.layer_weights[3].weights),
              ElementsAre(142, 142, 142, 142, 145, 145, 145, 145));
}

TEST_F(StreamAssemblerTest, MissesWeightsOfALayerThatNeverCame) {
  request_.weights_choice.add_layers(1);
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLayerWeights, 1, 0, {0, 0, Filled({3, 3}, 0.5f)})),
              IsOk());
  EXPECT_THAT(assembler_->Finish(result_),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a head of layer_weights")));
}

TEST_F(StreamAssemblerTest, RefusesWeightsOutOfOrder) {
  Ask({Kind::kWeights});
  EXPECT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 1, {0, 0, Filled({1, 3}, 0.1f)})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("head")));
  EXPECT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 1, Filled({1, 3}, 0.1f)})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("first row of a block")));
}

// Products of extents that a server chose must not overflow, nor ask for memory that nobody has.
TEST_F(StreamAssemblerTest, RefusesExtentsThatNoMemoryHolds) {
  Ask({Kind::kWeights});
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THAT(
      assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 0, Tensor(Dtype::kF32, {0, kHuge})})),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("rows of a block of scores")));
  EXPECT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, kHuge, Filled({1, 4}, 0.1f)})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("first row of a block of weights")));
  const Tensor many_rows(Dtype::kF32, {1, int64_t{1} << 40, 0});
  request_.input = HiddenStatesInput{&many_rows};
  request_.model_output = v1::LOGITS;  // whose width the server says
  assembler_.emplace(*StreamAssembler::Create(request_));
  EXPECT_THAT(
      assembler_->Add(RowBlock{0, 0, Filled({1, 1 << 21}, 0.5f)}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("expected one that fits into memory")));
}

TEST_F(StreamAssemblerTest, RefusesScoresOfSequencesWithoutRows) {
  request_.input = HiddenStatesInput{&input_, {3, 0}, nullptr, {}};
  Ask({Kind::kLogSumExp});
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {0, 0, Filled({3}, 1.5f)})), IsOk());
  EXPECT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {1, 0, Filled({2}, 1.5f)})),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rows of a head of log_sum_exp: expected at most 0, found 2")));
}

// A server could otherwise fill the memory of its client until the deadline.
TEST_F(StreamAssemblerTest, RefusesScoresThatNobodyAskedForOrBeyondTheRows) {
  Ask({Kind::kWeights});
  EXPECT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 0, {0, 0, Filled({3}, 1.5f)})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("log_sum_exp: expected none")));
  ASSERT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 0, Filled({3, 3}, 0.1f)})), IsOk());
  EXPECT_THAT(assembler_->Add(Scores(Kind::kWeights, 0, 0, {0, 3, Filled({1, 3}, 0.1f)})),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rows of a head of weights: expected at most 3, found 4")));
}

TEST_F(StreamAssemblerTest, TakesTheScoresThatAResumedSessionWasOpenedWith) {
  assembler_.emplace(
      *StreamAssembler::Create(request_, /*has_output=*/true, /*has_options=*/false));
  ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
  ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
  for (const int64_t sequence : {0, 1}) {
    ASSERT_THAT(assembler_->Add(
                    Scores(Kind::kLogSumExp, 0, 0, {sequence, 0, Filled({3 - sequence}, 1.5f)})),
                IsOk());
  }
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_EQ(result_.log_sum_exp.size(), 2u);
}

TEST_F(StreamAssemblerTest, MissesScoresOfWhichNothingCame) {
  for (const Kind kind : {Kind::kWeights, Kind::kLogSumExp}) {
    request_.options.Clear();
    Ask({kind});
    ASSERT_THAT(assembler_->Add(Rows(0, 0, 3, 1.0f)), IsOk());
    ASSERT_THAT(assembler_->Add(Rows(1, 0, 2, 1.0f)), IsOk());
    EXPECT_THAT(assembler_->Finish(result_),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("expected those that were asked for, found none")));
  }
}

TEST_F(StreamAssemblerTest, TheHeadsOfScoresAreThoseOfTheQuery) {
  const Tensor rows = Filled({1, 2, 4}, 1);
  request_.input = QueryKeyValueInput{.query = &rows, .key = &rows, .value = &rows};
  Ask({Kind::kLogSumExp});
  for (const int64_t head : {0, 1}) {
    ASSERT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, head, {0, 0, Filled({1}, 1)})), IsOk());
  }
  EXPECT_THAT(assembler_->Add(Scores(Kind::kLogSumExp, 0, 2, {0, 0, Filled({1}, 1)})),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("head of scores: expected one of 2, counted from 0, found 2")));
}

// The answer of Attend has a width even without rows.
TEST_F(StreamAssemblerTest, AnAnswerWithoutRowsHasTheShapeOfTheRequest) {
  request_.input = HiddenStatesInput{&input_, {0, 0}, nullptr, {}};
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_THAT(result_.output.shape(), ElementsAre(2, 3, kBlockWidth));
  EXPECT_THAT(ValuesOf(result_.output), Each(0));
  const Tensor query(Dtype::kF32, {0, 4, 16}), key(Dtype::kF32, {0, 2, 16}),
      value(Dtype::kF32, {0, 2, 8});
  request_.input = QueryKeyValueInput{&query, &key, &value, {0}, {0}};
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  EXPECT_THAT(result_.output.shape(), ElementsAre(0, 4, 8));
  EXPECT_TRUE(result_.weights.empty());
  request_.options.set_return_weights(true);
  request_.options.set_return_log_sum_exp(true);
  request_.options.set_weights_top_k(3);
  assembler_.emplace(*StreamAssembler::Create(request_));
  ASSERT_THAT(assembler_->Finish(result_), IsOk());
  ASSERT_EQ(result_.weights.size(), 1u);
  EXPECT_THAT(result_.weights[0].shape(), ElementsAre(4, 0, 0));
  ASSERT_EQ(result_.log_sum_exp.size(), 1u);
  EXPECT_THAT(result_.log_sum_exp[0].shape(), ElementsAre(4, 0));
  ASSERT_EQ(result_.top_weights.size(), 1u);
  EXPECT_THAT(result_.top_weights[0].weights.shape(), ElementsAre(4, 0, 0));
}

}  // namespace
}  // namespace attention
