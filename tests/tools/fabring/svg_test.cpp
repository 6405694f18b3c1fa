#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tools/fabring/svg.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using namespace tools;

TEST(Svg, TellsManyCurvesApart) {
  Chart chart;
  for (std::size_t i = 0; i < curve_colours + 2; ++i)
    chart.curves.push_back({"curve", {{1, 1}, {2, 2.0 + static_cast<double>(i)}}});
  std::istringstream text(draw(chart));
  std::set<std::string> strokes;
  for (std::string line; std::getline(text, line);)
    if (const auto at = line.find("stroke="); line.starts_with("<polyline") && line.find(" fill=\"none\"") < at)
      strokes.insert(line.substr(at));
  EXPECT_EQ(strokes.size(), curve_colours + 2);
}

TEST(Svg, LeavesOutWhatHasNoPlaceOnAnAxis) {
  Chart chart;
  chart.x_is_bytes = true;
  chart.curves = {{"one", {{0, 5}, {1024, 50}}}};
  EXPECT_THAT(draw(chart), testing::Not(HasSubstr("inf")));
}

// A point that is left out takes its marker with it; what is not drawn has no line in the legend.
TEST(Svg, DrawsTheMarkerOfEachPoint) {
  Chart chart;
  chart.circles = "circles";
  chart.squares = "squares";
  chart.curves = {{"one", {{0, 5}, {10, 50}, {20, 60}}, {Marker::square, Marker::circle}}};
  const std::string text = draw(chart);
  EXPECT_THAT(text, testing::AllOf(HasSubstr(">circles<"), testing::Not(HasSubstr(">squares<"))));
  const auto count = [&text](const std::string& what) {
    int found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("rx=\"3.5\""), 2) << "the point and its line of the legend";
  EXPECT_EQ(count("<circle "), 1) << "the last point, a dot";
}

double number_after(const std::string& text, const std::string& what) {
  const auto at = text.find(what);
  return at == std::string::npos ? -1 : std::stod(text.substr(at + what.size()));
}

/// What is written about the text: "<text x=".
std::string element_of(const std::string& svg, const std::string& text) {
  const auto end = svg.find(">" + text + "<");
  return end == std::string::npos ? "" : svg.substr(svg.rfind("<text", end), end - svg.rfind("<text", end));
}

// The name of a machine, which a file may give 63 letters, was cut off at both ends.
TEST(Svg, ALongTitleIsSmallerAndWhole) {
  const std::string title(110, 'm');
  Chart chart;
  chart.title = title;
  chart.curves = {{"one", {{1, 1}, {2, 2}}}};
  for (const std::string& svg : {draw(chart), draw(title, "unit", {{"ring", {{1}}}})}) {
    const std::string element = element_of(svg, title);
    const double half = 0.6 * 110 * number_after(element, "font-size=\"") / 2;
    const double middle = number_after(element, "x=\"");
    EXPECT_GE(middle - half, 0) << element;
    EXPECT_LE(middle + half, number_after(svg, "width=\""));
  }
  EXPECT_EQ(number_after(element_of(draw("short", "unit", {{"ring", {{1}}}}), "short"), "font-size=\""), 15);
}

TEST(Svg, ASinglePointIsInTheMiddleAndTheLastOfManyHasItsLabel) {
  Chart chart;
  chart.curves = {{"one", {{8, 50}}}};
  EXPECT_THAT(draw(chart), HasSubstr("<circle cx=\"359.0\"")) << "not on the axis, which is at 78";
  chart.curves = {{"one", {}}};
  for (int ranks = 1; ranks <= 17; ++ranks) chart.curves[0].points.emplace_back(ranks, ranks);
  EXPECT_NE(element_of(draw(chart), "17"), "");
}

TEST(Svg, LargeNumbersHaveUnitsOfTheirOwn) {
  Chart chart;
  chart.x_is_bytes = true;
  chart.curves = {{"one", {{1 << 20, 1}, {1099511627776.0, 1e10}}}};
  EXPECT_THAT(draw(chart), testing::AllOf(HasSubstr(">1T<"), HasSubstr(">10G<"), testing::Not(HasSubstr(">1024G<")),
                                          testing::Not(HasSubstr(">10000M<"))));
}

TEST(Svg, OneSquareIsWideEnoughForTheTitle) {
  EXPECT_THAT(draw("title", "unit", {{"ring", {{1}}}}),
              HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"670\""));
}

TEST(Svg, SquaresHaveNumbersValuesAndAScale) {
  const std::string few = draw("title", "unit", {{"ring", {{0, 2097152}, {524288, 0}}}});
  for (const char* text : {">2.0M<", ">512K<", ">0<", ">1<"}) EXPECT_THAT(few, HasSubstr(text));
  const std::vector<std::vector<double>> many(20, std::vector<double>(20, 4096));
  const std::string shown = draw("title", "unit", {{"ring", many}});
  EXPECT_THAT(shown, testing::AllOf(HasSubstr(">16<"), testing::Not(HasSubstr(">15<")), HasSubstr(">4.0K<")));
  std::size_t values = 0;
  for (auto at = shown.find(">4.0K<"); at != std::string::npos; at = shown.find(">4.0K<", at + 1)) ++values;
  EXPECT_EQ(values, 1u) << "at the scale's end: cells of many nodes are too small";
}

TEST(Svg, WritesTextThatIsNoMarkup) {
  Chart chart;
  chart.title = "a <b> & \"c\"";
  chart.curves = {{"one", {{1, 1}, {1000, 50}}}};
  const std::string text = draw(chart);
  EXPECT_THAT(text, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace fabring::tests
