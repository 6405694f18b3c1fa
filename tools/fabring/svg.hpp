#pragma once
// Small SVG pictures: shapes, a chart of curves on logarithmic or linear axes, and a grid of shades. Plain text, light
// background, no scripts, so that they show up in a README and in a browser alike.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fabring::tools {

class Svg {
 public:
  Svg(double width, double height);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double thickness = 1);
  void rectangle(double x, double y, double width, double height, std::string_view fill);
  void circle(double x, double y, double radius, std::string_view fill);
  /// With round corners and a border.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view border,
           double radius = 4, double thickness = 1);
  /// From one point down (or up) to another, leaving and arriving upright.
  void ribbon(double x1, double y1, double x2, double y2, std::string_view colour, double thickness);
  void curve(const std::vector<std::pair<double, double>>& points, std::string_view colour, bool dashed = false);
  enum class Anchor { start, middle, end };
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start, double size = 12,
            bool upright = false);
  void text_in(std::string_view colour, double x, double y, std::string_view text, Anchor anchor, double size,
               bool bold = false);
  std::string finish() &&;

 private:
  std::string body_;
};

/// How a point is drawn; circles and squares are hollow.
enum class Marker { dot, circle, square };

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y; what has no place on a logarithmic axis is left out
  std::vector<Marker> markers = {};               ///< of the points, in their order; of those that have none: dots
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool x_is_bytes = false;       ///< ticks at powers of two: 1K, 64K, 4M
  bool y_is_logarithmic = true;  ///< else from 0
  std::vector<Curve> curves;
  std::string circles = {}, squares = {};  ///< what they stand for; said where there are any
};
std::string draw(const Chart& chart);
/// So many curves have a colour of their own; those after them are dashed, by which a single point is not told apart.
inline constexpr std::size_t curve_colours = 12;

/// A square of shades for each matrix of bytes, side by side; the darkest is the largest value of all of them.
struct Shades {
  std::string title;
  std::vector<std::vector<double>> values;  ///< rows of equal length
};
std::string draw(const std::string& title, const std::string& unit, const std::vector<Shades>& squares);

}  // namespace fabring::tools
