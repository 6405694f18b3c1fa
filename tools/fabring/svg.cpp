#include "tools/fabring/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace fabring::tools {
namespace {

constexpr std::array<std::string_view, curve_colours> palette{"#1f5fa8", "#d1622b", "#2e8b57", "#8a3ffc",
                                                              "#b8860b", "#c2185b", "#00838f", "#5d4037",
                                                              "#56b4e9", "#9acd32", "#111111", "#e8a0bf"};
constexpr double margin = 10;  // of what is written
constexpr std::string_view grey = "#d9dde3";
constexpr std::string_view dark = "#30363d";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
  }
  return out;
}

std::string number_text(double value) {
  for (const auto& [unit, suffix] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= unit) return fmt::format("{:g}{}", value / unit, suffix);
  return fmt::format("{:g}", value);
}

constexpr std::array<std::pair<double, std::string_view>, 4> byte_units{
    {{1099511627776.0, "T"}, {1073741824.0, "G"}, {1048576.0, "M"}, {1024.0, "K"}}};

std::string bytes_text(double value) {
  for (const auto& [unit, suffix] : byte_units)
    if (value >= unit) return fmt::format("{:g}{}", value / unit, suffix);
  return fmt::format("{:g}", value);
}

/// With three digits: what fits into a cell.
std::string short_bytes(double value) {
  for (const auto& [unit, suffix] : byte_units)
    if (value >= unit) return fmt::format("{:.{}f}{}", value / unit, value / unit < 9.95 ? 1 : 0, suffix);
  return fmt::format("{:.0f}", value);
}

/// At most `size`, and small enough for so much room.
double fitting_size(std::string_view text, double size, double room) {
  constexpr double wide = 0.6;  // a letter, of its size; in most fonts it is less
  return std::min(size, room / wide / static_cast<double>(std::max<std::size_t>(text.size(), 1)));
}

/// Of a share of the darkest. A root, so that a little is seen beside a lot.
std::string shade(double share) {
  const double root = std::sqrt(share);
  const auto mixed = [&](double light, double full) { return static_cast<int>(light + (full - light) * root); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(244, 18), mixed(246, 60), mixed(249, 120));
}

/// What the shades stand for.
void draw_scale(Svg& svg, double middle, double y, double most) {
  constexpr int steps = 40;
  constexpr double step = 5, width = steps * step;
  for (int i = 0; i < steps; ++i) {
    const double root = (i + 0.5) / steps;
    svg.rectangle(middle - width / 2 + i * step, y, step, 12, shade(root * root));
  }
  for (const double root : {0.0, 0.5, 1.0})
    svg.text(middle + width * (root - 0.5), y + 26, short_bytes(most * root * root), Svg::Anchor::middle, 11);
}

/// From values to places on the paper.
struct Axis {
  double least = 1, most = 10;
  double from = 0, to = 1;
  bool logarithmic = true;
  double at(double value) const {
    const double share =
        logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
    return from + share * (to - from);
  }
};

std::vector<double> ticks(const Axis& axis, bool bytes) {
  std::vector<double> found;
  if (!axis.logarithmic) {
    const double span = axis.most - axis.least;
    double step = std::pow(10.0, std::floor(std::log10(span)));
    if (span / step < 3) step /= 5;
    if (span / step > 8) step *= 2;
    for (double value = axis.least; value <= axis.most * 1.0001; value += step) found.push_back(value);
    return found;
  }
  const double base = bytes ? 4 : 10;
  double value = std::pow(base, std::ceil(std::log(axis.least * 0.9999) / std::log(base)));
  for (; value <= axis.most * 1.0001; value *= base) found.push_back(value);
  if (bytes && found.size() > 9) {
    std::vector<double> fewer;
    for (std::size_t i = 0; i < found.size(); i += 2) fewer.push_back(found[i]);
    return fewer;
  }
  if (found.size() < 3 && !bytes) {
    found.clear();
    for (double power = std::pow(10.0, std::floor(std::log10(axis.least))); power <= axis.most; power *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if (power * digit >= axis.least * 0.9999 && power * digit <= axis.most * 1.0001) found.push_back(power * digit);
  }
  return found;
}

/// Where the points are, as far as labels do not touch, the last in any case: worlds of 8, 64, 512 ranks are not at
/// powers of ten.
std::vector<double> ticks_at_points(const Axis& axis, const std::vector<Curve>& curves) {
  constexpr double apart = 36;
  std::vector<double> values;
  for (const Curve& curve : curves)
    for (const auto& point : curve.points)
      if (!axis.logarithmic || point.first > 0) values.push_back(point.first);
  std::sort(values.begin(), values.end());
  std::vector<double> found;
  for (const double value : values)
    if (found.empty() || axis.at(value) - axis.at(found.back()) >= apart) found.push_back(value);
  while (found.size() > 1 && found.back() < values.back() && axis.at(values.back()) - axis.at(found.back()) < apart)
    found.pop_back();
  if (!found.empty() && found.back() < values.back()) found.push_back(values.back());
  return found;
}

void include(Axis& axis, double value, bool& first) {
  if (axis.logarithmic && value <= 0) return;
  axis.least = first ? value : std::min(axis.least, value);
  axis.most = first ? value : std::max(axis.most, value);
  first = false;
}

void mark(Svg& svg, Marker marker, double x, double y, std::string_view colour) {
  constexpr double half = 3.5;
  if (marker == Marker::dot)
    svg.circle(x, y, 3, colour);
  else
    svg.box(x - half, y - half, 2 * half, 2 * half, "#ffffff", colour, marker == Marker::circle ? half : 0, 1.5);
}

}  // namespace

Svg::Svg(double width, double height) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n",
      width, height);
  rectangle(0, 0, width, height, "#ffffff");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour, double thickness) {
  body_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:g}\"/>\n", x1, y1,
      x2, y2, colour, thickness);
}

void Svg::rectangle(double x, double y, double width, double height, std::string_view fill) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
      "shape-rendering=\"crispEdges\"/>\n",
      x, y, width, height, fill);
}

void Svg::circle(double x, double y, double radius, std::string_view fill) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"/>\n", x, y, radius, fill);
}

void Svg::box(double x, double y, double width, double height, std::string_view fill, std::string_view border,
              double radius, double thickness) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:g}\" fill=\"{}\" stroke=\"{}\" "
      "stroke-width=\"{:g}\"/>\n",
      x, y, width, height, radius, fill, border, thickness);
}

void Svg::ribbon(double x1, double y1, double x2, double y2, std::string_view colour, double thickness) {
  const double middle = (y1 + y2) / 2;
  body_ += fmt::format(
      "<path d=\"M{0:.1f},{1:.1f} C{0:.1f},{4:.1f} {2:.1f},{4:.1f} {2:.1f},{3:.1f}\" fill=\"none\" stroke=\"{5}\" "
      "stroke-width=\"{6:g}\" stroke-linecap=\"round\"/>\n",
      x1, y1, x2, y2, middle, colour, thickness);
}

void Svg::curve(const std::vector<std::pair<double, double>>& points, std::string_view colour, bool dashed) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  body_ += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\"{}/>\n",
      list, colour, dashed ? " stroke-dasharray=\"6 4\"" : "");
}

void Svg::text(double x, double y, std::string_view text, Anchor anchor, double size, bool upright) {
  constexpr std::array<std::string_view, 3> anchors{"start", "middle", "end"};
  const std::string turned = upright ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y) : "";
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x,
                  y, size, anchors[static_cast<std::size_t>(anchor)], dark, turned, escaped(text));
}

void Svg::text_in(std::string_view colour, double x, double y, std::string_view text, Anchor anchor, double size,
                  bool bold) {
  constexpr std::array<std::string_view, 3> anchors{"start", "middle", "end"};
  body_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, size,
      anchors[static_cast<std::size_t>(anchor)], colour, bold ? " font-weight=\"bold\"" : "", escaped(text));
}

std::string Svg::finish() && { return std::move(body_) + "</svg>\n"; }

std::string draw(const Chart& chart) {
  constexpr double width = 820, height = 460, left = 78, right = 640, top = 48, bottom = 400;
  Axis x{1, 10, left, right, true};
  Axis y{1, 10, bottom, top, chart.y_is_logarithmic};
  bool first_x = true, first_y = true;
  for (const Curve& curve : chart.curves)
    for (const auto& [px, py] : curve.points) include(x, px, first_x), include(y, py, first_y);
  if (x.most <= x.least) {  // a single one stands in the middle
    x.most = x.least * 1.5;
    x.least /= 1.5;
  }
  if (chart.y_is_logarithmic) {
    y.least = std::pow(10.0, std::floor(std::log10(y.least)));
    y.most = std::pow(10.0, std::ceil(std::log10(y.most * 1.0001)));
  } else {
    y.least = 0;
    y.most = y.most > 0 ? y.most * 1.05 : 1;
  }

  Svg svg(width, height);
  svg.text((left + right) / 2, 26, chart.title, Svg::Anchor::middle,
           fitting_size(chart.title, 15, left + right - 2 * margin));
  std::vector<double> below = chart.x_is_bytes ? ticks(x, true) : std::vector<double>();
  if (below.size() < 2) below = ticks_at_points(x, chart.curves);
  for (const double tick : below) {
    svg.line(x.at(tick), top, x.at(tick), bottom, grey);
    svg.text(x.at(tick), bottom + 18, chart.x_is_bytes ? bytes_text(tick) : fmt::format("{:g}", tick),
             Svg::Anchor::middle, 11);
  }
  for (const double tick : ticks(y, false)) {
    svg.line(left, y.at(tick), right, y.at(tick), grey);
    svg.text(left - 8, y.at(tick) + 4, number_text(tick), Svg::Anchor::end, 11);
  }
  svg.line(left, bottom, right, bottom, dark);
  svg.line(left, top, left, bottom, dark);
  svg.text((left + right) / 2, bottom + 42, chart.x_label, Svg::Anchor::middle);
  svg.text(20, (top + bottom) / 2, chart.y_label, Svg::Anchor::middle, 12, true);
  std::set<Marker> drawn;
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const std::string_view colour = palette[i % palette.size()];
    const bool dashed = i >= palette.size();
    const Curve& curve = chart.curves[i];
    std::vector<std::pair<double, double>> points;
    std::vector<Marker> markers;
    for (std::size_t point = 0; point < curve.points.size(); ++point) {
      const auto& [px, py] = curve.points[point];
      if (px <= 0 || (chart.y_is_logarithmic && py <= 0)) continue;
      points.emplace_back(x.at(px), y.at(py));
      markers.push_back(point < curve.markers.size() ? curve.markers[point] : Marker::dot);
      drawn.insert(markers.back());
    }
    svg.curve(points, colour, dashed);
    for (std::size_t point = 0; point < points.size(); ++point)
      mark(svg, markers[point], points[point].first, points[point].second, colour);
    const double at = top + 10 + 20 * static_cast<double>(i);
    if (dashed)
      svg.curve({{right + 16, at}, {right + 38, at}}, colour, dashed);
    else
      svg.line(right + 16, at, right + 38, at, colour, 3);
    svg.text(right + 44, at + 4, curve.name);
  }
  double at = top + 10 + 20 * static_cast<double>(chart.curves.size());
  for (const auto& [marker, meaning] : {std::pair(Marker::circle, chart.circles), {Marker::square, chart.squares}}) {
    if (!drawn.contains(marker)) continue;
    mark(svg, marker, right + 27, at, dark);
    svg.text(right + 44, at + 4, meaning);
    at += 20;
  }
  return std::move(svg).finish();
}

std::string draw(const std::string& title, const std::string& unit, const std::vector<Shades>& squares) {
  constexpr double side = 260, gap = 50, top = 90, least_width = 670;  // for the title
  constexpr std::size_t most_with_values = 8, most_numbered = 16;      // nodes
  double most = 0;
  for (const Shades& each : squares)
    for (const auto& row : each.values)
      for (const double value : row) most = std::max(most, value);
  const double all = gap + (side + gap) * static_cast<double>(std::max<std::size_t>(squares.size(), 1));
  const double width = std::max(all, least_width);
  Svg svg(width, top + side + 90);
  svg.text(width / 2, 26, title, Svg::Anchor::middle, fitting_size(title, 15, width - 2 * margin));
  svg.text(width / 2, 46, fmt::format("from (row) to (column); darkest: {}", unit), Svg::Anchor::middle, 11);
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double left = (width - all) / 2 + gap + (side + gap) * static_cast<double>(i);
    svg.text(left + side / 2, top - 12, squares[i].title, Svg::Anchor::middle,
             fitting_size(squares[i].title, 13, side + gap - margin));
    const auto& rows = squares[i].values;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double cell = side / static_cast<double>(rows.size());
      for (std::size_t c = 0; c < rows[r].size(); ++c) {
        const double share = most > 0 ? rows[r][c] / most : 0;
        const double x = left + cell * static_cast<double>(c), y = top + cell * static_cast<double>(r);
        svg.rectangle(x, y, cell, cell, shade(share));
        if (rows.size() <= most_with_values && rows[r][c] > 0)
          svg.text_in(share > 0.25 ? "#ffffff" : dark, x + cell / 2, y + cell / 2 + 3, short_bytes(rows[r][c]),
                      Svg::Anchor::middle, 9);
      }
      if (r % (rows.size() <= most_numbered ? 1 : 8) != 0) continue;
      const double at = cell * (static_cast<double>(r) + 0.5);
      svg.text(left - 5, top + at + 3, fmt::format("{}", r), Svg::Anchor::end, 9);
      svg.text(left + at, top + side + 12, fmt::format("{}", r), Svg::Anchor::middle, 9);
    }
    svg.text(left + side / 2, top + side + 28, "node", Svg::Anchor::middle, 11);
  }
  draw_scale(svg, width / 2, top + side + 46, most);
  return std::move(svg).finish();
}

}  // namespace fabring::tools
