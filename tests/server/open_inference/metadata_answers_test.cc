// Whatever metadata list is answered from the inputs that they call required, as clients ask that
// know of a model no more than its metadata and configuration: perf_analyzer does.
#include "absl/strings/str_cat.h"
#include "tests/server/open_inference/infer_fixture.h"

namespace attention {
namespace {

using Stub = InferClient::Stub;

// For every extent that may be any.
constexpr int64_t kExtent = 2;

class MetadataAnswersTest : public InferTest {
 protected:
  std::vector<std::string> ServedModels() {
    std::vector<std::string> names;
    const auto all = infer_.Call(&Stub::ModelStatistics, inference::ModelStatisticsRequest());
    EXPECT_THAT(all, IsOk());
    for (const auto& model : all->model_stats()) {
      names.push_back(model.name());
    }
    return names;
  }
  inference::ModelMetadataResponse Metadata(const std::string& name) {
    inference::ModelMetadataRequest request;
    request.set_name(name);
    return infer_.Call(&Stub::ModelMetadata, request).value();
  }
  inference::ModelConfig Config(const std::string& name) {
    inference::ModelConfigRequest request;
    request.set_name(name);
    return infer_.Call(&Stub::ModelConfig, request)->config();
  }
};

// Zeros in each required input, and every output by its name.
inference::ModelInferRequest RequestOf(const inference::ModelMetadataResponse& metadata,
                                       const inference::ModelConfig& config) {
  inference::ModelInferRequest request = InferRequest(metadata.name());
  for (int i = 0; i < metadata.inputs_size(); ++i) {
    const auto& input = metadata.inputs(i);
    EXPECT_EQ(config.input(i).name(), input.name());
    if (config.input(i).optional()) {
      continue;
    }
    Shape shape(input.shape().begin(), input.shape().end());
    std::replace(shape.begin(), shape.end(), int64_t{-1}, kExtent);
    const int64_t element = input.datatype() == "INT64" ? 8 : 4;
    AddBytes(request, input.name(), input.datatype(), shape,
             std::string(static_cast<size_t>(NumElements(shape) * element), '\0'));
  }
  for (const auto& output : metadata.outputs()) {
    request.add_outputs()->set_name(output.name());
  }
  return request;
}

TEST_F(MetadataAnswersTest, EveryListedOutputOfEveryModelComesFromTheRequiredInputsAlone) {
  const std::vector<std::string> models = ServedModels();
  EXPECT_GT(models.size(), 45u) << "the folders of tests/data/models, attention and demo";
  for (const std::string& name : models) {
    const inference::ModelMetadataResponse metadata = Metadata(name);
    const inference::ModelInferRequest request = RequestOf(metadata, Config(name));
    EXPECT_GT(request.inputs_size(), 0) << name;
    const auto response = infer_.Infer(request);
    ASSERT_THAT(response, IsOk()) << name;
    ASSERT_EQ(response->outputs_size(), metadata.outputs_size()) << name;
    for (int i = 0; i < metadata.outputs_size(); ++i) {
      const auto& listed = metadata.outputs(i);
      const auto& answered = response->outputs(i);
      EXPECT_EQ(answered.name(), listed.name()) << name;
      EXPECT_EQ(answered.datatype(), listed.datatype()) << name;
      ASSERT_EQ(answered.shape_size(), listed.shape_size()) << name;
      for (int axis = 0; axis < listed.shape_size(); ++axis) {
        EXPECT_TRUE(listed.shape(axis) == -1 || answered.shape(axis) == listed.shape(axis))
            << absl::StrCat(name, " ", listed.name(), " axis ", axis);
      }
    }
  }
}

}  // namespace
}  // namespace attention
