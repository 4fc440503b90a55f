#include "client/cli/show/save_answer.h"

#include "client/cli/files/tensor_file.h"
#include "client/plot/picture_facts.h"
#include "gmock/gmock.h"
#include "tests/client/plot/pictures.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

class PictureOfFileTest : public ::testing::Test {
 protected:
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

  TempFolder folder_;
};

TEST_F(PictureOfFileTest, AFileThatDescribesItselfIsBelieved) {
  const AttentionPicture made = MadePicture(2, 2, 3);
  const auto& layers = made.sequences[0].layers;
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"),
                          {{"output", &layers[0].weights},
                           {"layer_weights.0.0", &layers[0].weights},
                           {"layer_weights.1.0", &layers[1].weights}},
                          {{kPictureFacts, PictureFacts(made).dump()}}),
              IsOk());
  const auto picture = PictureOfFile(PathOf("a.safetensors"));
  ASSERT_THAT(picture, IsOk());
  EXPECT_EQ(picture->title, "Attention of test");
  EXPECT_EQ(picture->hidden_by, "causal");
  EXPECT_EQ(picture->sequences[0].layers[1].hidden, layers[1].hidden);
}

TEST_F(PictureOfFileTest, RefusesOtherFiles) {
  const Tensor weights(Dtype::kF32, {1, 2, 2});
  for (const char* const name : {"a.safetensors", "a.npy"}) {
    ASSERT_THAT(SaveTensors(PathOf(name), {{"output", &weights}}), IsOk());
    EXPECT_THAT(PictureOfFile(PathOf(name)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected a FILE.safetensors that attend run --output wrote")));
  }
}

}  // namespace
}  // namespace attention
