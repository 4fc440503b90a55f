// Whole models in a session: the bits of the whole sequence at once, and the next token's logits.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/tensor/seeded.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/golden_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DecodeModelsTest : public GoldenServerTest {
 protected:
  static std::vector<int32_t> Ids(int64_t count, int64_t vocab_size) {
    std::vector<int32_t> ids(count);
    for (int64_t i = 0; i < count; ++i) {
      ids[i] = static_cast<int32_t>((i * 37 + 11) % vocab_size);
    }
    return ids;
  }
  static std::vector<int32_t> Slice(const std::vector<int32_t>& ids, int64_t first, int64_t count) {
    return {ids.begin() + first, ids.begin() + first + count};
  }
  int64_t VocabSize(const std::string& name) {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model(name);
    v1::Model model;
    EXPECT_TRUE(client_.stub().GetModel(&context, request, &model).ok());
    return model.vocab_size();
  }
};

class EveryDecoder : public DecodeModelsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryDecoder, StepsAreTheRowsOfTheWholeSequence) {
  const std::vector<int32_t> ids = Ids(23, VocabSize(GetParam()));
  v1::AttendRequest whole = TokenRequest(GetParam(), ids, 23);
  const std::string expected = Attend(whole).output().data();
  for (const int64_t step : {1, 5, 23}) {
    DecodeStream stream(server_->NewChannel());
    stream.Must(OpenModel(GetParam()));
    std::string output;
    for (int64_t first = 0; first < 23; first += step) {
      output +=
          stream.Must(TokensStep(Slice(ids, first, std::min<int64_t>(step, 23 - first)))).rows;
    }
    EXPECT_TRUE(output == expected) << "in steps of " << step;
  }
}

TEST_P(EveryDecoder, AnswersWithTheLargestLogitsOfTheNextToken) {
  const std::vector<int32_t> ids = Ids(9, VocabSize(GetParam()));
  v1::AttendRequest whole = TokenRequest(GetParam(), ids, 9);
  whole.set_model_output(v1::LAST_LOGITS);
  const v1::AttendResponse response = Attend(whole);
  const std::vector<double> logits = ToDoubles(response.output());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel(GetParam()));
  stream.Must(TokensStep(Slice(ids, 0, 8)));
  v1::DecodeRequest step = TokensStep(Slice(ids, 8, 1));
  step.mutable_step()->set_top_logits(5);
  const DecodeAnswer answer = stream.Must(step);
  EXPECT_EQ(answer.rows, "");
  const v1::TopLogits& top = answer.result.top_logits();
  ASSERT_EQ(top.ids_size(), 5);
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit);
  }
  EXPECT_NEAR(top.log_sum_exp(), std::log(sum), 1e-4);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(top.ids(i), order[i]);
    EXPECT_EQ(top.logits(i), logits[order[i]]);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryDecoder,
                         ::testing::Values("gpt2", "llama", "mistral", "qwen2-window", "qwen3",
                                           "gemma2", "phi3", "gpt_neox"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(DecodeModelsTest, SaysWhyAModelDoesNotDecode) {
  DecodeStream stream(server_->NewChannel());
  for (const auto& [model, why] :
       {std::pair("bert", "causal"), std::pair("torch_transformer", "encoder"),
        std::pair("llama-not-causal", "causal")}) {
    const DecodeAnswer answer = stream.Do(OpenModel(model));
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument) << model;
    EXPECT_THAT(answer.result.message(),
                ::testing::StartsWith(std::string("open.model: model ") + model));
    EXPECT_THAT(answer.result.message(), HasSubstr(why));
  }
  const DecodeAnswer cross = stream.Do(OpenModel("torch_mha-kdim-vdim", 0));
  EXPECT_EQ(cross.result.message(),
            "open.layer: expected one that computes keys and values from its own rows, found 0 of "
            "model \"torch_mha-kdim-vdim\", which takes them from hidden_states.memory");
}

TEST_F(DecodeModelsTest, ALayerOfABidirectionalModelDecodes) {
  grpc::ClientContext context;
  v1::GetModelRequest get;
  get.set_model("bert");
  v1::Model model;
  ASSERT_TRUE(client_.stub().GetModel(&context, get, &model).ok());
  const Tensor fitting = SeededTensor(1, Dtype::kF32, {12, model.d_model()});
  v1::AttendRequest whole = RowsRequest("bert", fitting);
  whole.set_layer(1);
  whole.mutable_options()->set_causal(true);
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("bert", 1));
  std::string output;
  for (int64_t i = 0; i < 12; ++i) {
    output += stream.Must(RowsStep(fitting, i, 1)).rows;
  }
  EXPECT_TRUE(output == Attend(whole).output().data());
}

TEST_F(DecodeModelsTest, RefusesMorePositionsThanTheModelHas) {
  grpc::ClientContext context;
  v1::GetModelRequest get;
  get.set_model("gpt2");
  v1::Model model;
  ASSERT_TRUE(client_.stub().GetModel(&context, get, &model).ok());
  const int64_t most = model.max_positions();
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("gpt2"));
  stream.Must(TokensStep(Ids(most, model.vocab_size())));
  const DecodeAnswer answer = stream.Do(TokensStep({1}));
  EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(answer.result.message(), HasSubstr("positions"));
  EXPECT_EQ(stream.Must(TruncateTo(most - 1)).result.length(), most - 1);
  stream.Must(TokensStep({1}));
}

TEST_F(DecodeModelsTest, RowsDoNotPassWhatDynamicRotationsStandFor) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {65, 32});
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("llama-rope-dynamic"));
  stream.Must(RowsStep(rows, 0, 63));
  EXPECT_THAT(stream.Do(RowsStep(rows, 63, 2)).result.message(),
              HasSubstr("expected at most 64 positions, for which its rotations are valid, found a "
                        "sequence that ends at 65"));
  stream.Must(RowsStep(rows, 63, 1));
}

// Positions are embedded with tokens: rows come with their own.
TEST_F(DecodeModelsTest, RowsMayPassThePositionsOfTokens) {
  v1::GetModelRequest get;
  get.set_model("gpt2");
  grpc::ClientContext context;
  v1::Model model;
  ASSERT_TRUE(client_.stub().GetModel(&context, get, &model).ok());
  const int64_t most = model.max_positions();
  const Tensor rows = SeededTensor(1, Dtype::kF32, {most + 2, model.d_model()});
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("gpt2"));
  stream.Must(RowsStep(rows, 0, most));
  stream.Must(RowsStep(rows, most, 2));
  EXPECT_THAT(stream.Do(TokensStep({1})).result.message(),
              HasSubstr(absl::StrCat("expected at most ", most, " positions")));
}

TEST_F(DecodeModelsTest, ASequenceDoesNotPassALengthAtWhichItsRotationsChange) {
  const int64_t vocab_size = VocabSize("phi3-longrope");
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("phi3-longrope"));
  int64_t length = 0;
  DecodeAnswer answer;
  do {
    answer = stream.Do(TokensStep(Ids(4, vocab_size)));
    length += 4;
  } while (answer.result.code() == 0 && length < 1000);
  EXPECT_THAT(answer.result.message(), HasSubstr("its rotations change beyond"));
  DecodeStream at_once(server_->NewChannel());
  at_once.Must(OpenModel("phi3-longrope"));
  at_once.Must(TokensStep(Ids(length, vocab_size)));
  EXPECT_THAT(at_once.Do(TruncateTo(4)).result.message(),
              StartsWith("truncate.length: model phi3-longrope: its rotations change beyond"));
}

TEST_F(DecodeModelsTest, ARotationOfTheRequestDoesNotHaveTheLimitsOfTheModels) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {66, 32});
  for (const char* const name : {"phi3-longrope", "llama-rope-dynamic"}) {
    DecodeStream own(server_->NewChannel());
    own.Must(OpenModel(name, 0));
    own.Must(RowsStep(rows, 0, 4));
    EXPECT_EQ(own.Do(RowsStep(rows, 4, 62)).code(), absl::StatusCode::kInvalidArgument) << name;
    DecodeStream given(server_->NewChannel());
    v1::DecodeRequest open = OpenModel(name, 0);
    open.mutable_open()->mutable_options()->mutable_rotary()->set_base(10'000);
    given.Must(open);
    given.Must(RowsStep(rows, 0, 4));
    given.Must(RowsStep(rows, 4, 62));
    EXPECT_EQ(given.Must(TruncateTo(4)).result.length(), 4) << name;
  }
}

}  // namespace
}  // namespace attention
