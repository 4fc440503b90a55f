#include "client/page/svg.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SvgTest, WritesElementsInOrderAndEscapesValues) {
  Svg svg(100, 50.5, "a \"label\"");
  svg.Open("g", {{"class", "x\"><script>"}});
  svg.Add("rect", {{"x", 1}, {"y", 2.256}, {"width", size_t{3}}}).Text("1 < 2", {{"x", 0}});
  svg.Close();
  EXPECT_THAT(svg.File(""), AllOf(HasSubstr("viewBox=\"0 0 100 50.5\" role=\"img\" "
                                            "aria-label=\"a &quot;label&quot;\">\n"),
                                  HasSubstr("<g class=\"x&quot;&gt;&lt;script&gt;\">"
                                            "<rect x=\"1\" y=\"2.26\" width=\"3\"/>\n"
                                            "<text x=\"0\">1 &lt; 2</text>\n</g>\n</svg>\n")));
}

TEST(SvgTest, AFileStandsOnItsOwn) {
  const std::string file = Svg(10, 20, "label").File("text { fill: red }");
  EXPECT_THAT(file, HasSubstr("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                              "xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"20\""));
  EXPECT_THAT(file, HasSubstr("<title>label</title>"));
  EXPECT_THAT(file, HasSubstr("<![CDATA[\ntext { fill: red }]]>"));
}

TEST(SvgTest, NumbersAreShortAndAlwaysNumbers) {
  EXPECT_EQ(SvgAttribute::Text(12.0), "12");
  EXPECT_EQ(SvgAttribute::Text(-0.001), "0");
  EXPECT_EQ(SvgAttribute::Text(100.0), "100");
  EXPECT_EQ(SvgAttribute::Text(std::numeric_limits<double>::infinity()), "0");
}

}  // namespace
}  // namespace attention
