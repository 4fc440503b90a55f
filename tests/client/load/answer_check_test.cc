#include "client/load/answer_check.h"

#include <algorithm>
#include <vector>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

/// Rows of one head of width 1 whose query is 0: every row weighs all keys it sees alike, which can
/// be done by hand.
class AnswerCheckTest : public ::testing::Test {
 protected:
  AnswerCheckTest() {
    std::fill_n(query_.as<float>(), 2, 0.0f);
    std::fill_n(key_.as<float>(), 3, 1.0f);
    const float values[] = {3.0f, 6.0f, 9.0f};
    std::copy_n(values, 3, value_.as<float>());
    request_.input = QueryKeyValueInput{&query_, &key_, &value_, {}, {}, {}};
    result_.output = Tensor(Dtype::kF32, {1, 2, 1, 1});
  }

  AnswerCheck Check(std::vector<float> output) {
    std::copy(output.begin(), output.end(), result_.output.as<float>());
    const absl::StatusOr<AnswerCheck> check = CheckAnswer(nullptr, request_, result_);
    EXPECT_THAT(check, IsOk());
    return *check;
  }

  Tensor query_{Dtype::kF32, {1, 2, 1, 1}};
  Tensor key_{Dtype::kF32, {1, 3, 1, 1}};
  Tensor value_{Dtype::kF32, {1, 3, 1, 1}};
  AttendRequest request_;
  AttendResult result_;
};

TEST_F(AnswerCheckTest, AgreesWithTheMeanOfEqualKeys) {
  const AnswerCheck check = Check({6.0f, 6.0f});
  EXPECT_TRUE(check.agreed());
  EXPECT_LT(check.relative_l2, 1e-12);
}

TEST_F(AnswerCheckTest, CausalRowsEndAtTheirOwnPosition) {
  request_.options.set_causal(true);  // two rows at positions 1 and 2
  EXPECT_TRUE(Check({4.5f, 6.0f}).agreed());
  EXPECT_FALSE(Check({6.0f, 6.0f}).agreed());
}

TEST_F(AnswerCheckTest, AgreesWithAnExactAnswerThatWasRounded) {
  query_ = query_.ConvertedTo(Dtype::kBf16);
  const float values[] = {1.0f, 1.0078125f, 1.00390625f};  // their mean is half way between two
  std::copy_n(values, 3, value_.as<float>());
  result_.output = Tensor(Dtype::kBf16, {1, 2, 1, 1});
  const auto agreed = [this](float output) {
    std::fill_n(result_.output.as<Bf16>(), 2, ToBf16(output));
    return CheckAnswer(nullptr, request_, result_)->agreed();
  };
  EXPECT_TRUE(agreed(1.0f)) << "an error of 3.9e-3";
  EXPECT_FALSE(agreed(1.015625f));
}

TEST_F(AnswerCheckTest, DisagreesBeyondTheToleranceOfTheDtype) {
  EXPECT_FALSE(Check({6.0f, 6.00006f}).agreed());
  query_ = query_.ConvertedTo(Dtype::kBf16);
  EXPECT_TRUE(Check({6.0f, 6.00006f}).agreed());
  EXPECT_FALSE(Check({6.0f, 6.1f}).agreed());
}

TEST_F(AnswerCheckTest, PaddingMustBeZero) {
  std::get<QueryKeyValueInput>(request_.input).lengths = {1};
  EXPECT_TRUE(Check({6.0f, 0.0f}).agreed());
  EXPECT_FALSE(Check({6.0f, 0.1f}).agreed());
}

TEST_F(AnswerCheckTest, ChecksWeightsToo) {
  result_.weights.emplace_back(Dtype::kF32, Shape{1, 2, 3});
  std::fill_n(result_.weights[0].as<float>(), 6, 1.0f / 3.0f);
  EXPECT_TRUE(Check({6.0f, 6.0f}).agreed());
  result_.weights[0].as<float>()[4] = 0.5f;
  const AnswerCheck check = Check({6.0f, 6.0f});
  EXPECT_LE(check.relative_l2, check.tolerance);
  EXPECT_FALSE(check.agreed());
}

TEST_F(AnswerCheckTest, ChecksLogSumExpAndLargestWeights) {
  request_.options.set_window_right(1);
  request_.options.set_causal(false);
  std::get<QueryKeyValueInput>(request_.input).query_offsets = {0};  // rows see 2 and 3 keys
  Tensor& sums = result_.log_sum_exp.emplace_back(Dtype::kF32, Shape{1, 2});
  sums.as<float>()[0] = 0.693147181f;
  sums.as<float>()[1] = 1.09861229f;
  LargestWeights& top = result_.top_weights.emplace_back();
  top.weights = Tensor(Dtype::kF32, {1, 2, 2});
  const float weights[] = {0.5f, 0.5f, 1.0f / 3, 1.0f / 3};
  std::copy_n(weights, 4, top.weights.as<float>());
  top.keys = {0, 1, 2, 0};
  EXPECT_TRUE(Check({4.5f, 6.0f}).agreed());
  top.keys = {0, 2, 2, 0};
  EXPECT_FALSE(Check({4.5f, 6.0f}).agreed()) << "row 0 does not see key 2";
  top.keys = {0, 1, 2, 0};
  sums.as<float>()[1] = 1.0f;
  EXPECT_FALSE(Check({4.5f, 6.0f}).agreed());
}

TEST_F(AnswerCheckTest, LargestWeightsOfNoRowsAgree) {
  std::get<QueryKeyValueInput>(request_.input).lengths = {0};
  request_.options.set_weights_top_k(3);
  result_.top_weights.push_back({Tensor(Dtype::kF32, {1, 0, 3}), {}});
  EXPECT_TRUE(Check({0.0f, 0.0f}).agreed());
}

TEST_F(AnswerCheckTest, RefusesOptionsThatDoNotFit) {
  request_.options.add_sinks(1);
  request_.options.add_sinks(1);
  EXPECT_THAT(CheckAnswer(nullptr, request_, result_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sinks")));
  request_.options.clear_sinks();
  const MaskTensor mask{{1, 1, 2, 2}, {1, 1, 1, 1}};
  request_.mask = &mask;
  EXPECT_THAT(CheckAnswer(nullptr, request_, result_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[1, 1, 2, 2]")));
}

TEST_F(AnswerCheckTest, RefusesAnswersOfAnotherShape) {
  result_.output = Tensor(Dtype::kF32, {1, 3, 1, 1});
  EXPECT_THAT(CheckAnswer(nullptr, request_, result_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 2 elements")));
}

TEST_F(AnswerCheckTest, NeedsASeededModel) {
  request_.model = "weights-from-a-file";
  request_.input = TokenIdsInput{{1, 2}, {}};
  v1::Model model;
  EXPECT_THAT(
      CheckAnswer(&model, request_, result_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"weights-from-a-file\"")));
}

TEST_F(AnswerCheckTest, NeedsRowsThatKeepTheirSideOfAnEdge) {
  request_.input = TokenIdsInput{{1, 2}, {}};
  request_.options.set_similarity(v1::BOX);
  v1::Model model;
  model.set_seed(1);
  model.set_dtype(v1::BF16);
  EXPECT_THAT(CheckAnswer(&model, request_, result_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the edge of the box")));
}

TEST_F(AnswerCheckTest, AllowsForTheRoundingOfRowsThatAreWiderThanTheLayer) {
  v1::Model model;
  model.set_seed(1);
  model.set_dtype(v1::BF16);
  for (const auto set : {&v1::Model::set_num_heads, &v1::Model::set_num_kv_heads,
                         &v1::Model::set_head_dim, &v1::Model::set_value_head_dim}) {
    (model.*set)(2);
  }
  model.set_d_model(4);
  // Without keys the answer is the bias of the output.
  Tensor rows(Dtype::kF32, {1, 2, 4});
  const Tensor memory(Dtype::kF32, {1, 0, 4});
  HiddenStatesInput input;
  input.tensor = &rows;
  input.memory = &memory;
  request_.input = input;
  const SeededLayer layer = MakeSeededLayer(1, Dtype::kBf16, {4, 2, 2, 2, 2});
  result_.output = Tensor(Dtype::kF32, {1, 2, 4});
  const auto agreed = [&](float error) {
    for (int i = 0; i < 8; ++i) {
      result_.output.as<float>()[i] = layer.output_bias[i % 4] * (1 + error);
    }
    const absl::StatusOr<AnswerCheck> check = CheckAnswer(&model, request_, result_);
    EXPECT_THAT(check, IsOk());
    return check.ok() && check->agreed();
  };
  EXPECT_TRUE(agreed(5.2e-3f));
  EXPECT_FALSE(agreed(6e-3f));
  rows = rows.ConvertedTo(Dtype::kBf16);
  EXPECT_TRUE(agreed(4.4e-3f));
  EXPECT_FALSE(agreed(4.7e-3f));
}

TEST_F(AnswerCheckTest, RefusesTokensTheModelDoesNotHave) {
  v1::Model model;
  model.set_seed(1);
  model.set_vocab_size(10);
  model.set_max_positions(4);
  model.set_d_model(2);
  request_.input = TokenIdsInput{{1, 10}, {}};
  EXPECT_THAT(CheckAnswer(&model, request_, result_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 10")));
}

}  // namespace
}  // namespace attention
