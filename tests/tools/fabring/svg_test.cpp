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
