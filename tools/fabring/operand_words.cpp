#include "tools/fabring/operand_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/algorithms.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/base/whole_file.hpp"
#include "runtime/startup/machine_file.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {
namespace {

bool has_plans(Collective collective) {
  return std::ranges::any_of(all_algorithms(), [&](Algorithm each) { return has_algorithm(collective, each); });
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < collective_count; ++i)
    if (const auto each = static_cast<Collective>(i); has_plans(each)) names.push_back(name(each));
  return names;
}

/// `what` is "'summ' is not a reduction".
Status not_known(const std::string& what, std::string_view text, std::span<const std::string_view> known) {
  return wrong_argument(fmt::format("{}{} (known: {})", what, did_you_mean(text, known), fmt::join(known, ", ")));
}

template <class Enumeration>
std::vector<std::string_view> enumeration_names(int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name(static_cast<Enumeration>(i)));
  return names;
}

}  // namespace

std::string which_collective() { return fmt::format("which collective? {}", fmt::join(collective_names(), ", ")); }

Result<Collective> read_collective(std::string_view text) {
  const auto collective = parse_collective(text);
  if (collective && has_plans(*collective)) return *collective;
  return not_known(fmt::format("'{}' is not a collective", text), text, collective_names());
}

Result<DataType> read_type(std::string_view text) {
  if (const auto type = parse_data_type(text)) return *type;
  return not_known(fmt::format("-d '{}' is not a data type", text), text, enumeration_names<DataType>(data_type_count));
}

Result<ReduceOp> read_operation(std::string_view text) {
  if (const auto op = parse_reduce_op(text)) return *op;
  auto known = enumeration_names<ReduceOp>(reduce_op_count);
  std::erase(known, name(ReduceOp::user));  // a function of a program's own, whose steps alone can be looked at
  return not_known(fmt::format("-o '{}' is not a reduction", text), text, known);
}

Result<Config> read_as_setting(std::string_view setting, std::string_view option, std::string_view text) {
  const Setting& row = *find_setting(setting);
  Config read;
  FABRING_TRY(row.read(row, text, read).with_prefix(fmt::format("{}: ", option)));
  return read;
}

Result<Machine> read_priced_machine(const std::string& text) {
  auto machine = read_machine(text, "--machine");
  if (machine) return machine;
  const auto file = read_whole_file(text, 1);
  // A file that describes no machine is no mistake of the command line.
  if (file || file.error().code() != ErrorCode::unavailable)
    return Status(ErrorCode::unavailable, machine.error().message());
  // Without either it is more likely a name that was mistyped.
  const bool is_path = text.find('/') != std::string::npos || text.ends_with(".json");
  if (!is_path) return machine;
  return Status(ErrorCode::unavailable, fmt::format("--machine {}: {}", text, file.error().message()));
}

Status no_such_algorithm(std::string_view given, Collective collective) {
  std::vector<std::string_view> known{"auto"};
  for (const Algorithm each : all_algorithms())
    if (has_algorithm(collective, each)) known.push_back(name(each));
  return wrong_argument(fmt::format("--algorithm '{}' is not one that {} has: {}{}", given, name(collective),
                                    fmt::join(known, ", "), did_you_mean(given, known)));
}

}  // namespace fabring::tools
