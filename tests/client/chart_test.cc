#include "client/report/chart.h"

#include <cmath>
#include <string>

#include "client/report/bars.h"
#include "client/report/chart_picture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Chart LinearChart(std::vector<Series> series) {
  return {.id = "c",
          .title = "Title",
          .note = "Note",
          .x_axis = {.title = "x"},
          .y_axis = {.title = "y"},
          .x_names = {},
          .series = std::move(series),
          .limits = {}};
}

int NumCircles(const std::string& picture) {
  int count = 0;
  for (size_t at = picture.find("<circle"); at != std::string::npos;
       at = picture.find("<circle", at + 1)) {
    ++count;
  }
  return count;
}

TEST(ChartTest, EachNineOfAPercentileHasAsMuchRoom) {
  EXPECT_DOUBLE_EQ(PercentilePlace(0.5), 2.0);
  EXPECT_NEAR(PercentilePlace(0.99), 100.0, 1e-9);
  EXPECT_EQ(PercentileText(1.0), "0%");
  EXPECT_EQ(PercentileText(2.0), "50%");
  EXPECT_EQ(PercentileText(10.0), "90%");
  EXPECT_EQ(PercentileText(40.0), "97.5%");
  EXPECT_EQ(PercentileText(100.0), "99%");
  EXPECT_EQ(PercentileText(1000.0), "99.9%");
  EXPECT_EQ(PercentileText(100000.0), "99.999%");
}

TEST(ChartTest, TheTableHasARowForEachXOfAnySeries) {
  const Chart chart = LinearChart({{"a", {{0, 1}, {2, 1234.5}}}, {"b", {{1, 7}, {2, 8}}}});
  EXPECT_THAT(PlacesOfX(chart), ElementsAre(0, 1, 2));
  EXPECT_THAT(ChartHtml(chart),
              AllOf(HasSubstr("<bdi>0</bdi></th><td>1</td><td></td></tr>"),
                    HasSubstr("<bdi>1</bdi></th><td></td><td>7</td></tr>"),
                    HasSubstr("<bdi>2</bdi></th><td>1.234k</td><td>8</td></tr>")));
}

TEST(ChartTest, AnXCanHaveAName) {
  Chart chart = LinearChart({{"a", {{0, 1}, {4, 2}}}});
  chart.x_names[4] = "max of 4";
  EXPECT_THAT(ChartHtml(chart), HasSubstr("<bdi>max of 4</bdi></th><td>2</td>"));
}

TEST(ChartTest, ALineGoesThroughItsPointsAndBreaksWhereNothingWasMeasured) {
  const Chart chart = LinearChart({{"a", {{0, 0}, {1, 10}, {2, NAN}, {3, 10}, {4, NAN}, {10, 0}}}});
  const std::string picture = ChartPicture(chart, PictureSize::kWide);
  // 0 and 10 are the ends of both axes.
  EXPECT_THAT(picture, HasSubstr("data-x=\"22.4 113.76 205.12 296.48 387.84 936\""));
  EXPECT_THAT(picture, HasSubstr("d=\"M22.4,298.4L113.76,28.8M296.48,28.8M936,298.4\""));
}

TEST(ChartTest, PointsAreMarkedWhereTheyAreFewOrAlone) {
  std::vector<Point> points;
  for (int i = 0; i < 50; ++i) {
    points.push_back({static_cast<double>(i), i == 30 || i == 32 ? NAN : 1.0});
  }
  const std::string many = ChartPicture(LinearChart({{"a", points}}), PictureSize::kWide);
  EXPECT_EQ(NumCircles(many), 1) << "the 31st";
  const std::string few = ChartPicture(LinearChart({{"a", {{0, 1}, {1, 1}}}}), PictureSize::kWide);
  EXPECT_EQ(NumCircles(few), 2);
}

TEST(ChartTest, SeriesThatShareNoXAreStillLines) {
  const Chart chart = LinearChart({{"a", {{0, 0}, {10, 10}}}, {"b", {{5, 5}, {10, 0}}}});
  EXPECT_THAT(ChartPicture(chart, PictureSize::kWide), HasSubstr("d=\"M22.4,298.4L936,28.8\""));
}

TEST(ChartTest, LinearAxesStartAtZeroAndLimitsAreWithinThem) {
  Chart chart = LinearChart({{"a", {{0, 90}, {1, 95}}}});
  chart.limits = {{"p99=200ms", 200}};
  EXPECT_DOUBLE_EQ(ExtentOf(chart).high, 200.0);
  EXPECT_THAT(ChartPicture(chart, PictureSize::kNarrow),
              AllOf(HasSubstr(">0</text>"), HasSubstr(">200</text>"), HasSubstr(">p99=200ms<")));
}

TEST(ChartTest, ValuesFarApartGetALogarithmicAxis) {
  EXPECT_EQ(KindFor(LinearChart({{"a", {{0, 1}, {1, 20}}}})), AxisKind::kLinear);
  EXPECT_EQ(KindFor(LinearChart({{"a", {{0, 1}, {1, 200}}}})), AxisKind::kLog);
  EXPECT_EQ(KindFor(LinearChart({{"a", {{0, 0}, {1, 200}}}})), AxisKind::kLinear);
}

TEST(ChartTest, WithoutValuesItSaysSo) {
  for (const Chart& chart :
       {LinearChart({}), LinearChart({{"a", {}}}), LinearChart({{"a", {{1, NAN}}}})}) {
    EXPECT_THAT(ChartHtml(chart),
                AllOf(HasSubstr("no value was measured"), Not(HasSubstr("<path"))));
  }
}

TEST(ChartTest, OnePointIsEnough) {
  Chart chart = LinearChart({{"a", {{5, 5}}}});
  for (const AxisKind kind : {AxisKind::kLinear, AxisKind::kLog}) {
    chart.x_axis.kind = chart.y_axis.kind = kind;
    EXPECT_THAT(ChartPicture(chart, PictureSize::kNarrow), Not(HasSubstr("nan")));
    EXPECT_THAT(ChartPicture(chart, PictureSize::kNarrow), HasSubstr("<circle"));
  }
}

TEST(ChartTest, NamesAreText) {
  EXPECT_THAT(ChartHtml(LinearChart({{"<b>", {{0, 1}}}})),
              AllOf(HasSubstr("<bdi>&lt;b&gt;</bdi>"), Not(HasSubstr("<b>"))));
}

TEST(ChartTest, ColoursComeOnceMoreDashed) {
  EXPECT_EQ(SeriesClass(0), "series-1");
  EXPECT_EQ(SeriesClass(7), "series-8");
  EXPECT_EQ(SeriesClass(8), "series-1 again");
}

TEST(BarsTest, PartsAreOnOneScale) {
  const std::string html =
      BarChartHtml({.id = "b",
                    .title = "t",
                    .note = "n",
                    .part_names = {"queue", "compute"},
                    .bars = {{"one", {0.001, 0.003}}, {"<two>", {0.001, 0.0}}}});
  EXPECT_THAT(html, HasSubstr("x=\"250\" width=\"750\" height=\"22\"><title>compute: 3 ms"));
  EXPECT_THAT(html, HasSubstr("x=\"0\" width=\"250\" height=\"22\"><title>queue: 1 ms"));
  EXPECT_THAT(html, HasSubstr("<bdi>&lt;two&gt;</bdi></th><td>1 ms</td><td>0</td><td>1 ms</td>"));
}

}  // namespace
}  // namespace attention
