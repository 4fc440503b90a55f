// Pictures as SVG, pages and in terminals; browsers look at them in tests/browser.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/page/color.h"
#include "client/plot/html_picture.h"
#include "client/plot/svg_picture.h"
#include "client/plot/terminal_picture.h"
#include "client/plot/token_text.h"
#include "gmock/gmock.h"
#include "tests/client/plot/pictures.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// One layer and head: the identity, causal, of tokens that are hard to show.
AttentionPicture Hostile() {
  AttentionPicture picture = MadePicture(1, 1, 3);
  LayerPicture& layer = picture.sequences[0].layers[0];
  const float identity[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::copy(identity, identity + 9, layer.weights.as<float>());
  layer.rows = layer.keys = {"猫", "</script><b>\"&'", "שלום"};
  picture.title = "<i>";
  return picture;
}

TEST(TerminalPictureTest, ShadesWithTokensLookSo) {
  EXPECT_EQ(TerminalPicture(Hostile(), {.columns = 60}),
            "<i>\n\n"
            "layer 0, head 0\n"
            "                  0 1 2\n"
            "0             猫 ██····\n"
            "1 </script><b>\"… "
            "  ██··\n"
            "2           שלום     ██\n"
            "\n"
            "0%  ░░░░░▒▒▒▒▒▒▓▓▓▓▓▓██████ 100%   (half way: 25%)\n"
            "·· hidden: causal\n");
}

TEST(TerminalPictureTest, ColoursAreTheScales) {
  const std::string text = TerminalPicture(Hostile(), {.columns = 60, .has_colors = true});
  const Rgb most = SequentialColor(1);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("猫 \x1b[48;2;", most.red, ";", most.green, ";",
                                           most.blue, "m  \x1b[0m····\n")));
}

TEST(TerminalPictureTest, MapsStandBesideEachOtherAsFarAsTheyFit) {
  const AttentionPicture picture = MadePicture(2, 2, 4);
  EXPECT_THAT(TerminalPicture(picture, {.still = {.mean = true}, .columns = 80}),
              HasSubstr("layer 0, mean of 2 heads   layer 1, mean of 2 heads\n"));
  EXPECT_THAT(TerminalPicture(picture, {.still = {.mean = true}, .columns = 40}),
              HasSubstr("layer 0, mean of 2 heads\n"));
  EXPECT_THAT(TerminalPicture(picture, {.columns = 50}),
              HasSubstr("layer 0, head 0   layer 0, head 1\n"));
}

TEST(TerminalPictureTest, NoLineIsWiderThanTheTerminal) {
  const AttentionPicture picture = MadePicture(1, 1, 150);
  for (const int64_t columns : {20, 37, 80, 200}) {
    const std::string text = TerminalPicture(picture, {.columns = columns});
    int64_t widest = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      widest = std::max(widest, ColumnsOf(line));
      at = end + 1;
    }
    EXPECT_LE(widest, columns);
    EXPECT_GE(widest, std::min<int64_t>(columns - columns / 4, 150));
  }
}

TEST(TerminalPictureTest, ACellOfATightMapIsTheLargestOfItsRows) {
  for (const bool has_colors : {false, true}) {
    const std::string text =
        TerminalPicture(MadePicture(1, 1, 70), {.columns = 80, .has_colors = has_colors});
    EXPECT_THAT(text, HasSubstr("each cell: the largest of 2 rows x 1 keys\n"));
    // The last line is of rows 68 and 69, of which the last key is hidden from the first alone.
    EXPECT_EQ(CountOf(text, "·"), 34 * 35 + 2) << "two in the legend";
  }
}

/// A picture of one map, all of whose weights are equal.
AttentionPicture Oblong(int64_t rows, int64_t keys) {
  AttentionPicture picture = MadePicture(1, 1, 1);
  std::vector<LayerPicture>& layers = picture.sequences[0].layers;
  layers.clear();
  layers.push_back(MadeLayer({std::vector<double>(rows * keys, 0.5)}, rows, keys));
  return picture;
}

TEST(TerminalPictureTest, AFewRowsOfManyKeysStayApart) {
  const std::string text = TerminalPicture(Oblong(3, 1500), {.columns = 80});
  EXPECT_THAT(text, HasSubstr("each cell: the largest of 1 rows x 20 keys\n"));
  EXPECT_EQ(CountOf(text, "█"), 3 * 75 + 6) << "six in the legend";
}

TEST(SvgPictureTest, AFewRowsOfManyKeysHaveRoomForTheirLabels) {
  EXPECT_THAT(SvgPicture(Oblong(3, 1500), {}), HasSubstr("width=\"680\" height=\"39\""));
  EXPECT_THAT(SvgPicture(Oblong(1500, 3), {}), HasSubstr("width=\"39\" height=\"680\""));
}

TEST(SvgPictureTest, ForeignTextIsText) {
  const std::string svg = SvgPicture(Hostile(), {});
  EXPECT_THAT(svg, AllOf(HasSubstr("&lt;i&gt;"), HasSubstr("&lt;/script&gt;&lt;b&gt;"),
                         Not(HasSubstr("<b>")), Not(HasSubstr("</script>"))));
  EXPECT_EQ(CountOf(svg, ">猫<"), 2);
  EXPECT_THAT(svg, HasSubstr("hidden from a row: causal"));
}

TEST(SvgPictureTest, ManyMapsMakeAGrid) {
  EXPECT_EQ(CountOf(SvgPicture(MadePicture(3, 4, 5), {}), "class=\"cells\""), 12);
  EXPECT_EQ(CountOf(SvgPicture(MadePicture(6, 4, 5), {.mean = true}), "class=\"cells\""), 6);
  EXPECT_THAT(SvgPicture(MadePicture(3, 4, 5), {}), HasSubstr("layer 2, head 3"));
}

TEST(SvgPictureTest, ManyHeadsTakeSeveralLines) {
  const std::string svg = SvgPicture(MadePicture(1, 64, 5), {});
  EXPECT_EQ(CountOf(svg, "class=\"cells\""), 64);
  const size_t width = svg.find("width=\"");
  EXPECT_LT(std::stoi(svg.substr(width + 7)), 1600) << svg.substr(0, 200);
}

TEST(SvgPictureTest, LabelsAreAllDrawnWhileThereIsRoom) {
  for (const int64_t layers : {1, 2}) {
    AttentionPicture picture = MadePicture(layers, 1, 50);
    picture.sequences[0].layers[0].rows[49] = "last";
    EXPECT_THAT(SvgPicture(picture, {}), HasSubstr(">last<")) << layers;
  }
}

TEST(SvgPictureTest, SaysHowManyCellsADotCombines) {
  EXPECT_THAT(SvgPicture(MadePicture(1, 1, 1000), {}),
              HasSubstr(">each dot: the largest of up to 3 rows x 3 keys<"));
  EXPECT_THAT(SvgPicture(MadePicture(1, 1, 10), {}), Not(HasSubstr("each dot")));
}

TEST(SvgPictureTest, IsNoHigherThanItsMapsNeed) {
  const auto height = [](const std::string& svg) {
    return std::stoi(svg.substr(svg.find(" height=\"") + 9));
  };
  EXPECT_LT(height(SvgPicture(Oblong(3, 1500), {})), 320);
  EXPECT_GT(height(SvgPicture(Oblong(1500, 3), {})), 680);
}

TEST(SvgPictureTest, RowsWithoutTokensHaveOneNumber) {
  const std::string svg = SvgPicture(Oblong(3, 3), {});
  EXPECT_EQ(CountOf(svg, ">2<"), 2) << "of the last row, and of the last key";
}

TEST(SvgPictureTest, NothingHiddenNeedsNoLegend) {
  AttentionPicture picture = Hostile();
  picture.hidden_by.clear();
  EXPECT_THAT(SvgPicture(picture, {}), Not(HasSubstr("hidden from")));
}

TEST(SvgPictureTest, CellsOfOneColourBesideEachOtherAreOneRectangle) {
  AttentionPicture picture = Hostile();
  const float weights[] = {1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5};
  std::copy(weights, weights + 9, picture.sequences[0].layers[0].weights.as<float>());
  const std::string svg = SvgPicture(picture, {});
  EXPECT_THAT(svg, HasSubstr(absl::StrCat("<path fill=\"", Hex(SequentialColor(1)),
                                          "\" d=\"M0 0h1v1H0z\"/>")));
  EXPECT_THAT(svg, HasSubstr("d=\"M0 2h2v1H0z\"/>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M0 1h2v1H0zM2 2h1v1H2z\"/>"));
}

TEST(HtmlPictureTest, IsOneFileWithInertTokens) {
  const std::string html = HtmlPicture(Hostile(), 0);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, AllOf(HasSubstr("<bdi>&lt;i&gt;</bdi>"), Not(HasSubstr("</script><b>"))));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("src=")), Not(HasSubstr("@import"))));
}

}  // namespace
}  // namespace attention
