// Parameters and outputs that are refused before any work, with which code and which words.
#include "core/tensor/seeded.h"
#include "tests/server/open_inference/infer_plan_fixture.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

using ParameterRefusalTest = InferPlanTest;

TEST_F(ParameterRefusalTest, ParametersOutOfRangeOrOfAnotherKind) {
  const auto with = [](const std::string& name, const std::string& value) {
    inference::ModelInferRequest request = Ids("gpt2");
    request.MergeFrom(InferText("parameters { key: 'layer' value { int64_param: 0 } }"));
    request.MergeFrom(InferText("parameters { key: '" + name + "' value { " + value + " } }"));
    return request;
  };
  ExpectInvalid(with("layer", "int64_param: 2"),
                "parameter \"layer\": expected 0 to 1 of the 2 layers of model \"gpt2\", found 2");
  ExpectInvalid(with("layer", "string_param: 'last'"),
                "parameter \"layer\": expected an int64 or a decimal number, found a string "
                "\"last\"");
  ExpectInvalid(with("layer", "bool_param: true"),
                "parameter \"layer\": expected an int64, found a bool true");
  ExpectInvalid(with("layer", "double_param: 0"),
                "parameter \"layer\": expected an int64, found a double 0.0");
  ExpectInvalid(with("layer", "double_param: 0.5"),
                "parameter \"layer\": expected an int64, found a double 0.5");
  ExpectInvalid(with("layer", "double_param: 1e300"),
                "parameter \"layer\": expected an int64, found a double 1e+300");
  ExpectInvalid(with("layer", "uint64_param: 18446744073709551615"),
                "parameter \"layer\": expected an int64, found a uint64 18446744073709551615");
  ExpectInvalid(with("causal", "int64_param: 1"),
                "parameter \"causal\": expected a bool, found an int64 1");
  ExpectInvalid(with("scale", "string_param: 'half'"),
                "parameter \"scale\": expected a number, found a string \"half\"");
  ExpectInvalid(with("scale", "double_param: inf"),
                "parameter \"scale\": expected a finite FP32 number, found inf");
  ExpectInvalid(with("softcap", "double_param: -1"),
                "parameter \"softcap\": expected 0 to 1e30, found -1");
  ExpectInvalid(with("window", "int64_param: -1"),
                "parameter \"window\": expected 0 or more, found -1");
  ExpectInvalid(with("window_dilation", "int64_param: 0"),
                "parameter \"window_dilation\": expected 1 or more, found 0");
  ExpectInvalid(with("window_dilation", "string_param: '2'"),
                "parameter \"window_dilation\": expected 1 without a window, found 2");
  ExpectInvalid(with("temperature", "double_param: 1"),
                "parameters: expected layer, weights_layer, causal, scale, window, softcap, "
                "window_dilation or one of the protocol's own, found \"temperature\"");
  ExpectInvalid(with("triton_x", "bool_param: true"),
                "parameters: names that begin with \"triton_\" are reserved, found \"triton_x\"");
  ExpectInvalid(with("timeout", "int64_param: -1"),
                "parameter \"timeout\": expected 0 or more, found an int64 -1");
  ExpectInvalid(with("sequence_id", "string_param: 's'"),
                "parameter \"sequence_id\": expected none: a sequence that the server keeps is a "
                "Decode call of attention.v1.AttentionService, found a string \"s\"");
  ExpectInvalid(with("sequence_start", "bool_param: true"),
                "parameter \"sequence_start\": expected none: a sequence that the server keeps is "
                "a Decode call of attention.v1.AttentionService, found a bool true");
}

TEST_F(ParameterRefusalTest, OptionsAndWeightsNeedALayer) {
  inference::ModelInferRequest request = Ids("gpt2");
  (*request.mutable_parameters())["causal"].set_bool_param(false);
  ExpectInvalid(request,
                "parameter \"causal\": expected none without parameter \"layer\", since the whole "
                "stack of model \"gpt2\" takes no options, found one");
  request = Ids("gpt2");
  request.add_outputs()->set_name("weights");
  ExpectInvalid(request,
                "output \"weights\": expected parameter \"weights_layer\", or \"layer\" for the "
                "attention of one layer alone, of model \"gpt2\", found neither");
  request = InferRequest("attention");
  for (const std::string name : {"query", "key", "value"}) {
    AddTensor(request, name, SeededTensor(1, Dtype::kF32, {1, 1, 1, 8}));
  }
  SetLayer(request, 0);
  ExpectInvalid(request, "parameter \"layer\": expected none for model \"attention\", found 0");
}

TEST_F(ParameterRefusalTest, LayersWhoseWeightsAWholeStackDoesNotReturn) {
  const auto with = [](inference::ModelInferRequest request, int64_t layer) {
    (*request.mutable_parameters())["weights_layer"].set_int64_param(layer);
    return request;
  };
  inference::ModelInferRequest request = Ids("gpt2");
  const std::string unused =
      "parameter \"weights_layer\": expected none without output \"weights\" of a whole stack, "
      "found 0";
  ExpectInvalid(with(request, 0), unused);
  request.add_outputs()->set_name("weights");
  for (const int64_t layer : {-1, 2}) {
    ExpectInvalid(with(request, layer),
                  "parameter \"weights_layer\": expected 0 to 1 of model \"gpt2\", found " +
                      std::to_string(layer));
  }
  SetLayer(request, 0);
  ExpectInvalid(with(request, 0), unused);
  request = InferRequest("torch_transformer");
  AddTensor(request, "memory", SeededTensor(1, Dtype::kF32, {1, 2, 24}));
  request.add_outputs()->set_name("weights");
  ExpectInvalid(with(request, 0),
                "parameter \"weights_layer\": expected none for model \"torch_transformer\", which "
                "has an encoder (Attend's weights_choice has such weights), found 0");
}

TEST_F(ParameterRefusalTest, OutputsThatThereAreNot) {
  inference::ModelInferRequest request = Ids("demo");
  request.add_outputs()->set_name("logits");
  ExpectInvalid(request, "outputs: expected \"output\" or \"weights\", found \"logits\"");
  request = Ids("demo");
  request.add_outputs()->set_name("output");
  auto& second = *request.add_outputs();
  second.set_name("output");
  (*second.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*second.mutable_parameters())["shared_memory_byte_size"].set_int64_param(48);
  ExpectInvalid(request,
                "output \"output\": expected one of this name in shared memory, found a second");
  request = Ids("demo");
  auto& output = *request.add_outputs();
  output.set_name("output");
  (*output.mutable_parameters())["classification"].set_int64_param(3);
  ExpectInvalid(request,
                "output \"output\" parameters: expected shared_memory_region, "
                "shared_memory_byte_size and shared_memory_offset, found \"classification\"");
}

TEST_F(ParameterRefusalTest, RepliesThatWouldBeTooLarge) {
  inference::ModelInferRequest request = InferRequest("demo");
  AddBytes(request, "input_ids", "INT32", {8, 100}, std::string(3200, '\0'));
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kResourceExhausted,
                                      "the reply would have 1638400 bytes; the maximum is 1048576 "
                                      "(--max-message-bytes)"));
  AddInt32(request, "lengths", {8}, std::vector<int32_t>(8, 0));
  EXPECT_THAT(Plan(request).status().message(), HasSubstr("1638400")) << "padding is sent, too";
}

TEST_F(ParameterRefusalTest, SharedMemoryWhereItIsOff) {
  inference::ModelInferRequest request = Ids("demo");
  auto& input = *request.mutable_inputs(0)->mutable_parameters();
  input["shared_memory_byte_size"].set_int64_param(48);
  ExpectInvalid(request,
                "input \"input_ids\" parameters: expected shared_memory_region and "
                "shared_memory_byte_size, found one of them or neither");
  input["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kUnimplemented,
                                      "shared memory is off: the server was started without "
                                      "--allow-shared-memory"));
}

}  // namespace
}  // namespace attention
