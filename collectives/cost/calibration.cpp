#include "collectives/cost/calibration.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "collectives/cost/fit.hpp"
#include "collectives/cost/machine.hpp"
#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr std::int64_t parts_of_octave = 64;

/// The logarithm, in 64ths of a factor of two; whole numbers, so that every rank has the same.
std::int64_t logarithm(std::uint64_t bytes) {
  const std::uint64_t value = std::clamp<std::uint64_t>(bytes, 1, std::uint64_t{1} << 50);
  const int octave = static_cast<int>(std::bit_width(value)) - 1;
  const auto within = static_cast<std::int64_t>((value * parts_of_octave) >> octave) - parts_of_octave;
  return octave * parts_of_octave + within;
}

/// What one size took of its price, as a logarithm.
struct Point {
  double size = 0;  // logarithm()
  double miss = 0;
};

/// The fastest of each size.
std::vector<Point> points_of(const Machine& machine, std::span<const Measured> measured) {
  std::vector<Point> points;
  for (const Measured& each : measured) {
    const auto same = [&](const Measured& other) {
      return other.collective == Collective::allreduce && other.bytes == each.bytes && other.shape == each.shape;
    };
    if (!same(each) || each.time_ns <= 0) continue;
    if (std::ranges::any_of(measured,
                            [&](const Measured& other) { return same(other) && other.time_ns < each.time_ns; }))
      continue;
    const auto price = predict(each.collective, each.algorithm, each.bytes, each.shape, machine);
    if (!price || *price <= 0) continue;
    points.push_back({static_cast<double>(logarithm(each.bytes)),
                      std::log(static_cast<double>(each.time_ns) / static_cast<double>(*price))});
  }
  return points;
}

/// A size counts in full at itself and less the farther away, to nothing at some five times or a fifth of it: a single
/// time is off by a tenth or two, its neighbours by others.
double weight(double apart) {
  constexpr double reach = 2.5 * parts_of_octave;
  const double near = 1 - std::abs(apart) / reach;
  return std::max(near, 0.0);
}

}  // namespace

std::string_view calibration_field(std::size_t index) {
  static constexpr std::array<std::string_view, calibrated_sizes.size()> names{
      "allreduce_percent_8",   "allreduce_percent_256",  "allreduce_percent_4K",
      "allreduce_percent_32K", "allreduce_percent_256K", "allreduce_percent_1M",
      "allreduce_percent_4M",  "allreduce_percent_16M",  "allreduce_percent_64M"};
  return names[index];
}

std::uint32_t Calibration::at(std::uint64_t bytes) const {
  if (bytes <= calibrated_sizes.front()) return percent.front();
  for (std::size_t i = 1; i < calibrated_sizes.size(); ++i) {
    if (bytes > calibrated_sizes[i]) continue;
    const std::int64_t from = logarithm(calibrated_sizes[i - 1]);
    const std::int64_t to = logarithm(calibrated_sizes[i]);
    const std::int64_t first = percent[i - 1];
    const std::int64_t last = percent[i];
    return static_cast<std::uint32_t>(first + (last - first) * (logarithm(bytes) - from) / (to - from));
  }
  return percent.back();
}

Calibration calibrate(const Machine& machine, std::span<const Measured> measured) {
  const std::vector<Point> points = points_of(machine, measured);
  Calibration calibration;
  for (std::size_t i = 0; i < calibrated_sizes.size(); ++i) {
    double sum = 0;
    double weights = 0;
    for (const Point& point : points) {
      const double share = weight(point.size - static_cast<double>(logarithm(calibrated_sizes[i])));
      sum += share * point.miss;
      weights += share;
    }
    if (weights <= 0) continue;
    // With little that is near, little is said: as if the formula itself had been seen once from far.
    constexpr double of_the_formula = 0.2;
    const double factor = std::exp(sum / (weights + of_the_formula));
    calibration.percent[i] = static_cast<std::uint32_t>(
        std::clamp(std::round(100 * factor), double{least_calibration}, double{most_calibration}));
  }
  return calibration;
}

}  // namespace fabring
