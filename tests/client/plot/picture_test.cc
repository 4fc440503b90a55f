#include "client/plot/picture.h"

#include <limits>

#include "client/plot/html_picture.h"
#include "client/plot/picture_facts.h"
#include "client/plot/token_text.h"
#include "gmock/gmock.h"
#include "tests/client/plot/pictures.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PictureTest, TheMeanHidesWhatAllHeadsHide) {
  LayerPicture layer = MadeLayer({{1, 0, 0.5, 0.5}, {0, 1, 0, 1}}, 2, 2);
  layer.hidden = {0, 1, 0, 0, /**/ 1, 1, 0, 1};
  const WeightGrid mean = GridOf(layer, std::nullopt);
  EXPECT_THAT(mean.weights, ElementsAre(0.5, 0.5, 0.25, 0.75));
  EXPECT_THAT(mean.hidden, ElementsAre(0, 1, 0, 0));
  const WeightGrid second = GridOf(layer, 1);
  EXPECT_THAT(second.weights, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(second.hidden, ElementsAre(1, 1, 0, 1));
}

TEST(PictureTest, PoolingKeepsTheLargestAndWhatIsSeen) {
  LayerPicture layer = MadeLayer({{0.1, 0.2, 0.7, 0.3, 0.6, 0.1, 0, 0, 1}}, 3, 3);
  layer.hidden = {1, 1, 0, 1, 0, 1, 1, 1, 1};
  const WeightGrid pooled = Pooled(GridOf(layer, 0), 2, 2);
  EXPECT_EQ(pooled.rows, 2);
  EXPECT_EQ(pooled.rows_each, 2);
  EXPECT_THAT(pooled.weights, ElementsAre(0.6F, 0.7F, 0, 1));
  EXPECT_THAT(pooled.hidden, ElementsAre(0, 0, 1, 1));
}

TEST(PictureTest, ChoosesLayersAndHeadsByTheirNumbers) {
  AttentionPicture picture = MadePicture(3, 4, 2);
  ASSERT_THAT(Choose({2}, {3, 1}, picture), IsOk());
  ASSERT_EQ(picture.sequences[0].layers.size(), 1u);
  const LayerPicture& layer = picture.sequences[0].layers[0];
  EXPECT_EQ(layer.name, "layer 2");
  EXPECT_THAT(layer.heads, ElementsAre(3, 1));
  const AttentionPicture whole = MadePicture(3, 4, 2);
  EXPECT_EQ(GridOf(layer, 0).weights, GridOf(whole.sequences[0].layers[2], 3).weights);
  EXPECT_FALSE(layer.hidden.empty());

  EXPECT_THAT(Choose({7}, {}, picture),
              StatusIs(kInvalid, HasSubstr("layers: expected some of 2, found 7")));
  EXPECT_THAT(Choose({}, {0}, picture),
              StatusIs(kInvalid, HasSubstr("heads of layer 2: expected some of 1,3, found 0")));
}

TEST(PictureTest, ItsSourceNamesWhatIsChosen) {
  AttentionPicture picture = MadePicture(3, 4, 2);
  picture.source = "gpt2, 1 text, weights of layers 0,1,2, heads 0,1,2,3";
  ASSERT_THAT(Choose({2, 0}, {3}, picture), IsOk());
  EXPECT_EQ(picture.source, "gpt2, 1 text, weights of layers 2,0, heads 3");
  ASSERT_THAT(Choose({}, {}, picture), IsOk());
  EXPECT_EQ(picture.source, "gpt2, 1 text, weights of layers 2,0, heads 3");
  picture.source = "gpt2, weights of layers 0,2";
  ASSERT_THAT(Choose({2}, {3}, picture), IsOk());
  EXPECT_EQ(picture.source, "gpt2, weights of layers 2");
}

TEST(PictureTest, APictureWithoutCellsIsNone) {
  EXPECT_THAT(CheckPicture(MadePicture(2, 4, 0)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("expected sequences with tokens")));
}

TEST(PictureTest, RefusesWhatIsNoShareOfOne) {
  for (const float wrong : {-0.5F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
    AttentionPicture picture = MadePicture(1, 2, 3);
    picture.sequences[0].layers[0].weights.as<float>()[9 + 5] = wrong;
    EXPECT_THAT(CheckPicture(picture),
                StatusIs(kInvalid, AllOf(HasSubstr("layer 0: expected weights of 0 to 1"),
                                         HasSubstr("at head 1, row 1, key 2"))));
  }
  AttentionPicture short_names = MadePicture(1, 2, 3);
  short_names.sequences[0].layers[0].keys.pop_back();
  EXPECT_THAT(CheckPicture(short_names),
              StatusIs(kInvalid, HasSubstr("expected weights [2, 3, 2] for its heads and tokens, "
                                           "found [2, 3, 3]")));
}

TEST(PictureTest, CountsWeightsThatAreNaN) {
  AttentionPicture picture = MadePicture(1, 2, 3);
  float* const weights = picture.sequences[0].layers[0].weights.as<float>();
  weights[9 + 5] = weights[9 + 8] = std::nanf("");
  EXPECT_THAT(CheckPicture(picture),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "layer 0: expected weights of 0 to 1, found nan at head 1, row 1, key 2 (2 "
                       "weights of 18 are NaN)"));
}

TEST(PictureTest, SaysHowToStayBelowTheLimit) {
  AttentionPicture picture;
  picture.sequences.push_back({.name = "sequence 0", .layers = {}});
  LayerPicture& layer = picture.sequences[0].layers.emplace_back();
  layer.weights = Tensor(Dtype::kF32, {1, 1, kMaxCells + 1});
  EXPECT_THAT(CheckPicture(picture),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("at most 16777216 weights, found 16777217"),
                             HasSubstr("--weights-layers"))));
}

TEST(PictureTest, TokensAreLimited) {
  AttentionPicture picture;
  picture.sequences.push_back({.name = "sequence 0", .layers = {}});
  const std::vector<double> weights(kMaxPictureTokens + 1, 0.0);
  picture.sequences[0].layers.push_back(MadeLayer({weights}, 1, kMaxPictureTokens + 1));
  EXPECT_THAT(CheckPicture(picture), StatusIs(absl::StatusCode::kResourceExhausted,
                                              HasSubstr("at most 8192 rows and keys, found "
                                                        "[1, 1, 8193]")));
}

TEST(PictureTest, FactsAndWeightsMakeThePictureAgain) {
  const AttentionPicture picture = MadePicture(2, 2, 5);
  NamedTensors tensors;
  for (const LayerPicture& layer : picture.sequences[0].layers) {
    tensors[layer.tensor_name] = layer.weights.ConvertedTo(Dtype::kF32);
  }
  const auto again = PictureFrom(PictureFacts(picture).dump(), std::move(tensors));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(PageData(*again), PageData(picture));
}

TEST(PictureTest, TextsOfAFileReachNoTerminalAsCommands) {
  AttentionPicture picture = MadePicture(1, 1, 2);
  picture.title = picture.source = picture.hidden_by = "a b\x1b[2J\n";
  SequencePicture& sequence = picture.sequences[0];
  sequence.name = sequence.layers[0].name = "\u202Ec";
  sequence.layers[0].rows = sequence.layers[0].keys = {"\x1b]0;x\x07", "␣d"};
  NamedTensors tensors;
  tensors[sequence.layers[0].tensor_name] = sequence.layers[0].weights.ConvertedTo(Dtype::kF32);
  const auto read = PictureFrom(PictureFacts(picture).dump(), std::move(tensors));
  ASSERT_THAT(read, IsOk());
  for (const std::string& text : {read->title, read->source, read->hidden_by}) {
    EXPECT_EQ(text, "a b␛[2J↵");
  }
  EXPECT_EQ(read->sequences[0].name, "<U+202E>c");
  EXPECT_EQ(read->sequences[0].layers[0].name, "<U+202E>c");
  EXPECT_THAT(read->sequences[0].layers[0].rows, ElementsAre("␛]0;x␇", "␣d"));
  EXPECT_THAT(read->sequences[0].layers[0].keys, ElementsAre("␛]0;x␇", "␣d"));
}

TEST(PictureTest, FactsThatDoNotFitAreRefused) {
  const AttentionPicture picture = MadePicture(1, 2, 3);
  const nlohmann::json facts = PictureFacts(picture);
  EXPECT_THAT(PictureFrom(facts.dump(), {}),
              StatusIs(kInvalid, HasSubstr("tensor \"layer_weights.0.0\": expected [2, 3, 3], as "
                                           "the file's own description says, found none")));
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json changed = facts;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    NamedTensors tensors;
    tensors["layer_weights.0.0"] = picture.sequences[0].layers[0].weights.ConvertedTo(Dtype::kF32);
    return PictureFrom(changed.dump(), std::move(tensors)).status();
  };
  EXPECT_THAT(with("/masks/0", "AAAA"),
              StatusIs(kInvalid, HasSubstr("expected a mask of 2 bytes")));
  EXPECT_THAT(with("/sequences/0/layers/0/maskHeads", 7),
              StatusIs(kInvalid, HasSubstr("maskHeads: expected 1 or 2, found 7")));
  EXPECT_THAT(with("/sequences/0/layers/0/rows", 9), StatusIs(kInvalid, HasSubstr("out of range")));
  EXPECT_THAT(with("/title", 1), StatusIs(kInvalid, HasSubstr("description of a picture")));
  EXPECT_THAT(PictureFrom("{", {}), StatusIs(kInvalid, HasSubstr("attend.picture: expected JSON")));
}

TEST(TokenTextTest, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(ShownToken(" cat"), "␣cat");
  EXPECT_EQ(ShownToken("\n\t\r\x01\x7f"), "↵⇥␍␁␡");
  EXPECT_EQ(ShownToken("a\u202e\u200bb\u0085"), "a<U+202E><U+200B>b<U+0085>");
  EXPECT_EQ(ShownToken("\xff\xe2\x28"), "\\xFF\\xE2(");
  EXPECT_EQ(ShownToken("\u3000"), "<U+3000>") << "it would be an empty label";
  EXPECT_EQ(ShownToken(" \u3164\ufe0f"), "␣<U+3164><U+FE0F>");
  EXPECT_EQ(ShownToken("\u2764\ufe0f"), "\u2764\ufe0f") << "the form of a visible character";
  EXPECT_EQ(ShownToken("\xed\xa0\x80"), "\\xED\\xA0\\x80");
  EXPECT_EQ(ShownToken(""), "∅");
  EXPECT_EQ(ShownToken("שלום 猫"), "שלום␣猫");
  EXPECT_EQ(ShownToken("a\u00A0b"), "a␣b");
}

TEST(TokenTextTest, CountsColumnsAsTerminalsDo) {
  EXPECT_EQ(ColumnsOf("cat"), 3);
  EXPECT_EQ(ColumnsOf("猫a"), 3);
  EXPECT_EQ(ColumnsOf("e\u0301"), 1);
  EXPECT_EQ(ColumnsOf("\U0001F600ก็…"), 4);
  EXPECT_EQ(CutTo("猫猫猫", 5), "猫猫…");
  EXPECT_EQ(CutTo("猫猫猫", 4), "猫…");
  EXPECT_EQ(CutTo("cat", 3), "cat");
  EXPECT_EQ(CutTo("cat", 0), "");
}

}  // namespace
}  // namespace attention
