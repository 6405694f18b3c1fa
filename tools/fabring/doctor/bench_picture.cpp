#include "tools/fabring/doctor/bench_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/fabring/svg.hpp"

namespace fabring::tools {
namespace {

// From pale green to red: the slower, the redder, so that what is wrong stands out and figures stay readable.
std::string shade(double share) {
  const double x = std::clamp(share, 0.0, 1.0);
  const auto mix = [&](double from, double to) { return static_cast<int>(from + (to - from) * x); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(226, 226), mix(92, 240), mix(80, 228));
}

// Hosts of a cluster differ in how their names begin and end.
std::string shortened(const std::string& name) {
  constexpr std::size_t most = 48, half = (most - 3) / 2;
  return name.size() <= most ? name : name.substr(0, half) + "..." + name.substr(name.size() - half);
}

// Never in powers of ten, as "{:.3g}" has 1234.
std::string three_digits(double value) {
  return value < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string table_of(const BenchMatrix& matrix, const Rates& values, const char* what, std::size_t most) {
  const std::size_t players = matrix.names.size();
  if (players > most) return {};
  const auto cell = [&](std::size_t from, std::size_t to) -> std::string {
    if (from == to) return "-";
    return values[from][to] <= 0 ? "?" : three_digits(values[from][to]);
  };
  std::size_t width = 6;  // a slow link has more digits: 0.0123
  for (std::size_t from = 0; from < players; ++from)
    for (std::size_t to = 0; to < players; ++to) width = std::max(width, cell(from, to).size() + 1);
  std::string text = fmt::format("{}\n      ", what);
  for (std::size_t to = 0; to < players; ++to) text += fmt::format("{:>{}}", to, width);
  text += "\n";
  for (std::size_t from = 0; from < players; ++from) {
    text += fmt::format("{:>6}", from);
    for (std::size_t to = 0; to < players; ++to) text += fmt::format("{:>{}}", cell(from, to), width);
    text += "   " + matrix.names[from] + "\n";
  }
  return text;
}

}  // namespace

std::string matrix_text(const BenchMatrix& matrix, std::size_t most) {
  return table_of(matrix, matrix.GBps, "GB/s, from the row to the column", most);
}

std::string latency_text(const BenchMatrix& matrix, std::size_t most) {
  return table_of(matrix, matrix.latency_us, "us one way", most);
}

std::string heat_map(const BenchMatrix& matrix, const std::string& title) {
  const std::size_t players = matrix.names.size();
  const double cell = players <= 12 ? 56 : players <= 40 ? 22 : 9;
  const double top = 70, gap = 60, letters = players <= 12 ? 12 : 9;
  std::size_t longest = 0;
  if (players <= 40)
    for (const std::string& name : matrix.names) longest = std::max(longest, shortened(name).size());
  const double margin = std::max(150.0, 12 + 0.62 * letters * static_cast<double>(longest));
  const double side = cell * static_cast<double>(players);
  Svg svg(2 * (margin + side) + gap + 20, top + side + 30);
  svg.text(10, 24, title, Svg::Anchor::start, 16);
  double highest = 0;
  for (std::size_t a = 0; a < players; ++a)
    for (std::size_t b = 0; b < players; ++b) highest = std::max(highest, matrix.GBps[a][b]);
  const Rates excess = latency_excess(matrix);
  const auto draw = [&](double left, const char* what, const auto& share, const auto& label) {
    svg.text(left + margin, top - 22, what, Svg::Anchor::start, 13);
    for (std::size_t a = 0; a < players; ++a) {
      const double y = top + cell * static_cast<double>(a);
      if (players <= 40)
        svg.text(left + margin - 6, y + cell / 2 + 4, shortened(matrix.names[a]), Svg::Anchor::end, letters);
      for (std::size_t b = 0; b < players; ++b) {
        const double x = left + margin + cell * static_cast<double>(b);
        const std::string text = label(a, b);
        svg.rectangle(x + 0.5, y + 0.5, cell - 1, cell - 1, a == b || text.empty() ? "#f4f4f4" : shade(share(a, b)));
        if (players <= 12 && a != b)
          svg.text(x + cell / 2, y + cell / 2 + 4, text.empty() ? "?" : text, Svg::Anchor::middle, 12);
      }
      if (players <= 12)
        svg.text(left + margin + cell * (static_cast<double>(a) + 0.5), top - 6, std::to_string(a), Svg::Anchor::middle,
                 11);
    }
  };
  draw(
      0, "GB/s, from the row to the column; red is slow",
      [&](std::size_t a, std::size_t b) { return highest > 0 ? matrix.GBps[a][b] / highest : 0; },
      [&](std::size_t a, std::size_t b) {
        return matrix.GBps[a][b] > 0 ? three_digits(matrix.GBps[a][b]) : std::string();
      });
  draw(
      margin + side + gap, "us one way; red is slow", [&](std::size_t a, std::size_t b) { return 1 - excess[a][b]; },
      [&](std::size_t a, std::size_t b) {
        return matrix.latency_us[a][b] > 0 ? three_digits(matrix.latency_us[a][b]) : std::string();
      });
  return std::move(svg).finish();
}

}  // namespace fabring::tools
