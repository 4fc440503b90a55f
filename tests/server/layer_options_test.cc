// The options of a request for a model's layer, against the double-precision reference.
#include <algorithm>
#include <span>
#include <utility>

#include "core/models/seeded_model.h"
#include "gmock/gmock.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

class LayerOptionsTest : public ::testing::Test {
 protected:
  v1::AttendResponse Attend(const v1::AttendRequest& request) { return client_.Must(request); }

  InProcessServer server_{{.threads = 2}};
  AttendClient client_{server_.NewChannel()};
  const reference::Layer layer_ = ReferenceLayer(DemoModelSpec());
};

TEST_F(LayerOptionsTest, LayersOfAModelTakeThemToo) {
  const Tensor input = SeededTensor(7, Dtype::kF32, {2, 9, kDemoWidth});
  const std::vector<double> slopes = {0.5, 0.25, 0.125, 0.0625, 0.5, 0.25, 0.125, 0.0625};
  v1::AttentionOptions with_mask = Options("window: 6");
  SetScores<uint8_t>(v1::BOOL, {2, 1, 9, 9}, MaskAt, with_mask.mutable_mask());
  const std::pair<v1::AttentionOptions, reference::Options> cases[] = {
      {Options("causal: true prefix: 4"), {.causal = true, .prefix = 4}},
      {Options("causal: true window: 3 global_tokens: 1 rotary { dim: 32 } query_norm {} "
               "alibi_slopes: [0.5, 0.25, 0.125, 0.0625, 0.5, 0.25, 0.125, 0.0625]"),
       {.causal = true,
        .window = 3,
        .global_tokens = {1},
        .alibi_slopes = slopes,
        .query_norm = reference::RmsNorm{},
        .rotary = reference::Rotary{.dim = 32}}},
      {Options("similarity: LINEAR causal: true"),
       {.causal = true, .similarity = reference::Similarity::kLinear}},
      {with_mask, {.window = 6}},
  };
  for (const auto& [wire, options] : cases) {
    SCOPED_TRACE(wire.ShortDebugString().substr(0, 200));
    v1::AttendRequest request = DemoRequest(input, {9, 7});
    *request.mutable_options() = wire;
    const v1::AttendResponse response = Attend(request);
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t rows = i == 0 ? 9 : 7;
      reference::Options own = options;
      if (wire.has_mask()) {
        own.mask = Scores<uint8_t>(i, 1, rows, rows, MaskAt);
      }
      const auto expected = reference::MultiHeadAttention(
          layer_, Rows(ToDoubles(input), kDemoWidth, 9 * i, rows), {}, own);
      EXPECT_LE(reference::RelativeL2(Rows(ToDoubles(response.output()), kDemoWidth, 9 * i, rows),
                                      expected.output),
                reference::kLayerToleranceF32);
    }
  }
}

TEST_F(LayerOptionsTest, LayersReturnLogSumExpAndLargestWeights) {
  v1::AttendRequest request;
  request.set_model("demo");
  for (const int32_t id : {11, 42, 7, 5, 900}) {
    request.mutable_token_ids()->add_ids(id);
  }
  *request.mutable_options() =
      Options("causal: true return_weights: true return_log_sum_exp: true weights_top_k: 2");
  const v1::AttendResponse response = Attend(request);
  const auto model = Model::CreateSeeded(DemoModelSpec());
  Tensor rows(Dtype::kF32, {5, 512});
  (*model)->Embed({std::span(request.token_ids().ids().data(), 5)}, rows.as<float>());
  const auto expected =
      reference::MultiHeadAttention(layer_, ToDoubles(rows), {}, {.causal = true});
  ASSERT_EQ(response.log_sum_exp_size(), 1);
  EXPECT_THAT(response.log_sum_exp(0).shape(), ElementsAre(8, 5));
  EXPECT_LE(reference::RelativeL2(ToDoubles(response.log_sum_exp(0)), expected.log_sum_exp),
            reference::kLayerToleranceF32);
  ASSERT_EQ(response.top_weights_size(), 1);
  ASSERT_THAT(response.top_weights(0).weights().shape(), ElementsAre(8, 5, 2));
  const std::vector<double> top = ToDoubles(response.top_weights(0).weights());
  const std::vector<double> weights = ToDoubles(response.weights(0));
  for (int64_t row = 0; row < 8 * 5; ++row) {
    const auto begin = weights.begin() + row * 5;
    EXPECT_EQ(top[row * 2], *std::max_element(begin, begin + 5));
  }
}

}  // namespace
}  // namespace attention
