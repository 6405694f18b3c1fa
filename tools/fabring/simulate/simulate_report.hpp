#pragma once
// How `fabring simulate` shows forecasts: a table with a column for each algorithm, JSON, and pictures; and what its
// other tables and pictures have in common with those.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/fabring/simulate/forecast.hpp"
#include "tools/fabring/svg.hpp"

namespace fabring::tools {

/// What the rows are: sizes of one world, or worlds for one size.
enum class Rows { sizes, ranks };

/// Before prices.
inline constexpr char priced_mark[] = "~";
/// Before times of which only the first tiles were simulated.
inline constexpr char extrapolated_mark[] = "^";

/// What stands below a table: what its marks mean, as far as it has any, and why algorithms were not simulated.
class Legend {
 public:
  void mark(bool priced, bool extrapolated);
  void explain(Algorithm algorithm, std::string_view why);
  std::string text() const;

 private:
  bool priced_ = false, extrapolated_ = false;
  std::set<std::string> reasons_;
};

/// Forecasts of one row after the other, the same algorithms in each. "*" marks the fastest, "~" a price.
std::string forecast_table(const std::vector<std::vector<Forecast>>& rows, Rows what);
/// An algorithm of which no row has a time, and why: unsupported.
Status without_forecast(const std::vector<std::vector<Forecast>>& rows);
std::string forecast_json(const std::vector<std::vector<Forecast>>& rows, const ForecastOptions& options);
/// What the hollow points of a picture are: prices, and what was extrapolated.
void explain_markers(Chart& chart);
Marker marker_of(bool priced, bool extrapolated);
/// Time over size or over ranks.
Chart forecast_chart(const std::vector<std::vector<Forecast>>& rows, Rows what, const std::string& title);

/// Bytes from node to node of an algorithm's plans.
Result<Shades> link_loads(Collective collective, Algorithm algorithm, const std::vector<int>& node_of,
                          std::uint64_t bytes, std::uint32_t element_bytes);

/// For titles: ", 10% of ranks 500 us late"; empty where none may be.
std::string stragglers_title(const simulation::Stragglers& stragglers);
/// For what stands below a table: how many are late in worlds of so many ranks.
std::string stragglers_line(const simulation::Stragglers& stragglers, const std::vector<int>& worlds);

/// "12.3 us", "4.56 ms"; "> 36 years" from longest_time on.
std::string time_text(Nanoseconds time);

}  // namespace fabring::tools
