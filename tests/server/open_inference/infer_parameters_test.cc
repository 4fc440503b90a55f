// What parameters mean.
#include "server/services/open_inference/infer_parameters.h"

#include "core/tensor/seeded.h"
#include "tests/server/open_inference/infer_plan_fixture.h"

namespace attention {
namespace {

using ::testing::SizeIs;

using InferParametersTest = InferPlanTest;

TEST_F(InferParametersTest, ParametersAreTheLayersOptions) {
  inference::ModelInferRequest request = InferText(R"pb(
    model_name: "gpt2"
    model_version: "3"
    id: "seven"
    parameters {
      key: "layer"
      value { string_param: "1" }
    }
    parameters {
      key: "causal"
      value { bool_param: false }
    }
    parameters {
      key: "scale"
      value { string_param: "0.25" }
    }
    parameters {
      key: "softcap"
      value { int64_param: 30 }
    }
    parameters {
      key: "window"
      value { int64_param: 2 }
    }
    outputs { name: "weights" }
    outputs { name: "output" })pb");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {2, 3, 36}));
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->attend.key.layer, 1);
  EXPECT_FALSE(plan->attend.options.shared.causal);
  EXPECT_EQ(plan->attend.options.shared.scale, 0.25f);
  EXPECT_EQ(plan->attend.options.shared.softcap, 30);
  EXPECT_EQ(plan->attend.options.wire->window(), 2);
  EXPECT_EQ(plan->answer.id, "seven");
  EXPECT_EQ(plan->answer.model_version, "3");
  ASSERT_THAT(plan->answer.outputs, SizeIs(2));
  EXPECT_TRUE(plan->answer.outputs[0].is_weights);
  EXPECT_EQ(plan->answer.outputs[0].shape[2], 3);
}

TEST_F(InferParametersTest, LayersAreCausalAsTheirFamilyIs) {
  for (const auto& [model, causal] : {std::pair("gpt2", true), std::pair("bert", false)}) {
    inference::ModelInferRequest request = InferRequest(model);
    AddInt64(request, "input_ids", {1, 2}, {1, 2});
    SetLayer(request, 0);
    const auto plan = Plan(request);
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->attend.options.shared.causal, causal) << model;
  }
}

TEST_F(InferParametersTest, TheProtocolsOwnParametersAreTaken) {
  inference::ModelInferRequest request = InferText(R"pb(
    model_name: "demo"
    parameters {
      key: "priority"
      value { uint64_param: 2 }
    }
    parameters {
      key: "timeout"
      value { int64_param: 5000 }
    }
    parameters {
      key: "headers"
      value { string_param: "h" }
    }
    parameters {
      key: "binary_data_output"
      value { bool_param: true }
    }
    parameters {
      key: "triton_enable_empty_final_response"
      value { bool_param: true }
    }
    parameters {
      key: "sequence_id"
      value { int64_param: 0 }
    }
    parameters {
      key: "sequence_start"
      value { bool_param: false }
    }
    parameters {
      key: "sequence_end"
      value { bool_param: false }
    })pb");
  AddInt64(request, "input_ids", {1, 1}, {1});
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->parameters.priority, 2);
  EXPECT_EQ(plan->parameters.timeout_us, 5000);
  EXPECT_TRUE(plan->parameters.wants_empty_final_response);
}

TEST_F(InferParametersTest, AnOutputThatIsNamedTwiceIsReturnedOnce) {
  inference::ModelInferRequest request = Ids("demo");
  for (const std::string name : {"output", "weights", "output", "weights"}) {
    request.add_outputs()->set_name(name);
  }
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(plan->answer.outputs, SizeIs(2));
  EXPECT_FALSE(plan->answer.outputs[0].is_weights);
  EXPECT_TRUE(plan->answer.outputs[1].is_weights);
}

}  // namespace
}  // namespace attention
