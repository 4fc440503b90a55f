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
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"), layers[0].weights,
                          {{"layer_weights.0.0", &layers[0].weights},
                           {"layer_weights.1.0", &layers[1].weights}},
                          {{kPictureFacts, PictureFacts(made).dump()}}),
              IsOk());
  const auto picture = PictureOfFile(PathOf("a.safetensors"));
  ASSERT_THAT(picture, IsOk());
  EXPECT_EQ(picture->title, "Attention of test");
  EXPECT_EQ(picture->hidden_by, "causal");
  EXPECT_EQ(picture->sequences[0].layers[1].hidden, layers[1].hidden);
}

TEST_F(PictureOfFileTest, WeightsOfOtherProgramsAreDrawnByTheirNames) {
  const Tensor weights(Dtype::kF32, {2, 3, 4}), other(Dtype::kF32, {1, 2, 2});
  const Tensor endless(Dtype::kF32, {1, 0, int64_t{1} << 40});
  ASSERT_THAT(WriteSafetensors(PathOf("a.safetensors"), {{"layer_weights.10.1", &weights},
                                                         {"layer_weights.2.1", &other},
                                                         {"weights.0", &other},
                                                         {"weights.00", &weights},
                                                         {"layer_weights.-1.0", &weights},
                                                         {"weights.5", &endless},
                                                         {"keys", &other}}),
              IsOk());
  const auto picture = PictureOfFile(PathOf("a.safetensors"));
  ASSERT_THAT(picture, IsOk());
  ASSERT_EQ(picture->sequences.size(), 2u);
  ASSERT_EQ(picture->sequences[0].layers.size(), 1u);
  EXPECT_EQ(picture->sequences[0].layers[0].name, "attention");
  EXPECT_THAT(picture->sequences[0].layers[0].heads, ::testing::ElementsAre(0));
  const std::vector<LayerPicture>& layers = picture->sequences[1].layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "layer 2");
  EXPECT_EQ(layers[1].number, 10);
  EXPECT_THAT(layers[1].heads, ::testing::ElementsAre(0, 1));
  EXPECT_THAT(layers[1].keys, ::testing::ElementsAre("0", "1", "2", "3"));
}

TEST_F(PictureOfFileTest, RefusesOtherFiles) {
  const Tensor weights(Dtype::kF32, {1, 2, 2});
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"), weights), IsOk());
  EXPECT_THAT(PictureOfFile(PathOf("a.safetensors")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("writes them, found output [1, 2, 2]")));
  ASSERT_THAT(SaveTensors(PathOf("a.npy"), weights), IsOk());
  EXPECT_THAT(PictureOfFile(PathOf("a.npy")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a.npy: expected FILE.safetensors with attention weights")));
}

}  // namespace
}  // namespace attention
