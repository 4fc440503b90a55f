#include "client/cli/show/file_picture.h"

#include "client/cli/files/npy.h"
#include "client/cli/files/tensor_file.h"
#include "client/plot/picture_facts.h"
#include "gmock/gmock.h"
#include "tests/client/pictures.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Rows that give the same to all keys up to their own.
Tensor CausalWeights(const Shape& shape) {
  Tensor tensor(Dtype::kF32, shape);
  const int64_t rows = shape[shape.size() - 2], keys = shape.back();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const int64_t row = i / keys % rows, key = i % keys;
    tensor.as<float>()[i] = key > row ? 0.0F : 1.0F / static_cast<float>(row + 1);
  }
  return tensor;
}

class FilePictureTest : public ::testing::Test {
 protected:
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

  std::string Npy(const Shape& shape) const {
    EXPECT_THAT(WriteNpy(PathOf("weights.npy"), CausalWeights(shape)), IsOk());
    return PathOf("weights.npy");
  }

  TempFolder folder_;
};

TEST_F(FilePictureTest, AxesAreLayersSequencesHeadsRowsAndKeys) {
  struct Case {
    Shape shape;
    bool has_sequences;
    size_t sequences, layers, heads;
  };
  const Case cases[] = {{{2, 2}, false, 1, 1, 1},
                        {{3, 2, 2}, false, 1, 1, 3},
                        {{4, 3, 2, 2}, false, 1, 4, 3},
                        {{4, 3, 2, 2}, true, 4, 1, 3},
                        {{5, 4, 3, 2, 2}, false, 4, 5, 3}};
  for (const Case& one : cases) {
    const auto picture =
        PictureOfFile({.path = Npy(one.shape), .has_sequences = one.has_sequences});
    ASSERT_THAT(picture, IsOk());
    ASSERT_EQ(picture->sequences.size(), one.sequences);
    ASSERT_EQ(picture->sequences[0].layers.size(), one.layers);
    EXPECT_EQ(picture->sequences[0].layers[0].heads.size(), one.heads);
    EXPECT_EQ(picture->sequences.back().layers.back().number, one.layers - 1);
  }
}

TEST_F(FilePictureTest, TellsWhatIsHiddenFromZerosOrAsItIsTold) {
  const std::string path = Npy({2, 3, 3});
  const auto by_zeros = PictureOfFile({.path = path});
  ASSERT_THAT(by_zeros, IsOk());
  EXPECT_EQ(by_zeros->hidden_by, "weights of exactly 0 in all heads");
  EXPECT_THAT(by_zeros->sequences[0].layers[0].hidden, ElementsAre(0, 1, 1, 0, 0, 1, 0, 0, 0));

  v1::AttentionOptions options;
  options.set_causal(true);
  options.set_window(2);
  const auto by_options = PictureOfFile({.path = path, .visibility = options});
  ASSERT_THAT(by_options, IsOk());
  EXPECT_EQ(by_options->hidden_by, "causal, window 2");
  EXPECT_THAT(by_options->sequences[0].layers[0].hidden, ElementsAre(0, 1, 1, 0, 0, 1, 1, 0, 0));

  v1::AttentionOptions open;
  open.set_causal(false);
  const auto told_open = PictureOfFile({.path = path, .visibility = open});
  ASSERT_THAT(told_open, IsOk());
  EXPECT_THAT(told_open->sequences[0].layers[0].hidden, IsEmpty());
  EXPECT_EQ(told_open->hidden_by, "");
}

TEST_F(FilePictureTest, SeveralTensorsAreLayersInNaturalOrder) {
  const Tensor weights = CausalWeights({2, 3, 4, 4});
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"),
                          {{"layer.10", &weights}, {"layer.2", &weights}, {"layer.0", &weights}}),
              IsOk());
  const auto picture = PictureOfFile({.path = PathOf("a.safetensors")});
  ASSERT_THAT(picture, IsOk());
  ASSERT_EQ(picture->sequences.size(), 2u);
  const auto& layers = picture->sequences[1].layers;
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].name + layers[1].name + layers[2].name, "layer.0layer.2layer.10");

  const auto one = PictureOfFile({.path = PathOf("a.safetensors:layer.2")});
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->sequences[0].layers.size(), 2u);
}

TEST_F(FilePictureTest, AFileThatDescribesItselfIsBelieved) {
  const AttentionPicture made = MadePicture(2, 2, 3);
  const auto& layers = made.sequences[0].layers;
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"),
                          {{"output", &layers[0].weights},
                           {"layer_weights.0.0", &layers[0].weights},
                           {"layer_weights.1.0", &layers[1].weights}},
                          {{kPictureFacts, PictureFacts(made).dump()}}),
              IsOk());
  const auto picture = PictureOfFile({.path = PathOf("a.safetensors")});
  ASSERT_THAT(picture, IsOk());
  EXPECT_EQ(picture->title, "Attention of test");
  EXPECT_EQ(picture->hidden_by, "causal");
  EXPECT_EQ(picture->sequences[0].layers[1].hidden, layers[1].hidden);
}

TEST_F(FilePictureTest, TokensComeFromListsAndLines) {
  const std::string weights = Npy({1, 2, 2, 2});
  const auto rows_of = [&](const std::string& name, const std::string& text) {
    const auto picture = PictureOfFile({.path = weights, .tokens = folder_.Write(name, text)});
    EXPECT_THAT(picture, IsOk());
    return picture->sequences[0].layers[0].rows;
  };
  EXPECT_THAT(rows_of("t.json", R"(["Ġcat", "\n"])"), ElementsAre("␣cat", "↵"));
  EXPECT_THAT(rows_of("t.json", R"([["a", "b"]])"), ElementsAre("a", "b"));
  EXPECT_THAT(rows_of("t.json", R"({"rows": ["a", "b"], "keys": ["c", "d"]})"),
              ElementsAre("a", "b"));
  EXPECT_THAT(rows_of("t.txt", "a b\r\nc\n"), ElementsAre("a␣b", "c"));
}

TEST_F(FilePictureTest, SaysWhatDoesNotFit) {
  const std::string weights = Npy({2, 3, 3});
  const auto error_of = [&](const std::string& name, const std::string& text) {
    return PictureOfFile({.path = weights, .tokens = folder_.Write(name, text)}).status();
  };
  EXPECT_THAT(error_of("t.txt", "a\nb\n"),
              StatusIs(kInvalid, HasSubstr("t.txt: expected 3 tokens for the rows of layer 0, "
                                           "found 2")));
  EXPECT_THAT(error_of("t.json", "[1]"), StatusIs(kInvalid, HasSubstr("t.json: expected a list")));
  EXPECT_THAT(error_of("t.json", "{"), StatusIs(kInvalid, HasSubstr("t.json: expected JSON")));
  EXPECT_THAT(error_of("t.json", R"([["a"], ["b"]])"),
              StatusIs(kInvalid, HasSubstr("expected tokens of 1 sequences, found 2")));
  EXPECT_THAT(PictureOfFile({.path = weights, .tokens = PathOf("none")}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(PictureOfFile({.path = Npy({3})}),
              StatusIs(kInvalid, AllOf(HasSubstr("weights.npy\": expected [Sq, Sk]"),
                                       HasSubstr("found [3]"))));
  const Tensor matrix = CausalWeights({2, 2});
  const Tensor wrong(Dtype::kF32, {4});
  ASSERT_THAT(SaveTensors(PathOf("a.safetensors"), {{"a", &matrix}, {"b", &wrong}}), IsOk());
  EXPECT_THAT(PictureOfFile({.path = PathOf("a.safetensors")}),
              StatusIs(kInvalid, AllOf(HasSubstr("tensor \"b\""), HasSubstr("found [4]; FILE:TENSOR"
                                                                            " chooses"))));
}

}  // namespace
}  // namespace attention
