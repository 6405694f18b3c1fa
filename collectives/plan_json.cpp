#include "collectives/plan_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "collectives/check.hpp"
#include "collectives/json_text.hpp"
#include "collectives/ownership.hpp"
#include "runtime/base/nearest_name.hpp"

namespace fabring {
namespace {

using Json = nlohmann::ordered_json;  // for writing; its objects take a linear search for every new key
using Parsed = nlohmann::json;

constexpr std::string_view format_name = "fabring-plan";
constexpr std::uint64_t format_version = 1;
constexpr std::uint64_t most_ranks = 4096;            // the proof is quadratic
constexpr std::size_t most_steps = 65536;             // so are its dependencies
constexpr std::size_t longest_list = 4 * most_steps;  // only ranges may be more than steps
constexpr std::uint32_t deepest_range = 64;  // parts of parts; what asks a range for its place goes up all of them
constexpr std::size_t most_nesting = 8;
constexpr std::uint64_t most_in_32_bits = std::numeric_limits<std::uint32_t>::max();

constexpr std::array kinds{StepKind::send,   StepKind::recv, StepKind::recv_reduce,
                           StepKind::reduce, StepKind::copy, StepKind::finish};
constexpr std::array<std::string_view, 3> spaces{"input", "output", "scratch"};

Json block_json(const Block& block) {
  Json json = Json::array({spaces[static_cast<std::size_t>(block.space)], block.range});
  if (block.space == Space::scratch) json.push_back(block.scratch);
  return json;
}

bool has_to(StepKind kind) { return kind != StepKind::send; }
bool has_from(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv_reduce || kind == StepKind::copy;
}

Json step_json(const Plan& plan, const Step& step, const std::vector<StepId>& after) {
  Json json{{"kind", name(step.kind)}};
  if (is_message(step.kind)) {
    json["peer"] = step.peer;
    json["message"] = step.message;
  }
  if (has_to(step.kind)) json["to"] = block_json(step.to);
  if (has_from(step.kind)) json["from"] = block_json(step.from);
  if (step.kind == StepKind::recv_reduce) json["incoming_first"] = step.incoming_first;
  if (step.kind == StepKind::reduce) {
    json["operands"] = Json::array();
    for (const Block& operand : reads(plan, step)) json["operands"].push_back(block_json(operand));
  }
  json["after"] = after;
  return json;
}

Json plan_json(const Plan& plan) {
  std::vector<std::vector<StepId>> after(plan.steps.size());
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      after[plan.successors[step.first_successor + i]].push_back(id);
    }
  }
  Json json{{"format", format_name},
            {"version", format_version},
            {"collective", name(plan.collective)},
            {"algorithm", plan.algorithm},
            {"rank", plan.rank},
            {"size", plan.size},
            {"root", plan.root},
            {"largest_message", plan.largest_message}};
  json["ranges"] = Json::array();
  for (const Range& range : plan.ranges) {
    json["ranges"].push_back(Json::array({range.parent, range.first, range.last, range.parts}));
  }
  json["scratch"] = plan.scratch;
  json["steps"] = Json::array();
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    json["steps"].push_back(step_json(plan, plan.steps[id], after[id]));
  }
  return json;
}

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

/// Reads the fields of one object; the first that is wrong is remembered, and all reads after it give defaults. Last is
/// nothing_else().
class Reader {
 public:
  Reader(const Parsed& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("is not an object");
  }

  const Status& status() const { return status_; }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = wrong(where_ + " " + what);
  }

  /// A field that nobody has asked for is a mistyped one, or one that this plan would not obey.
  void nothing_else() {
    if (!status_.ok()) return;
    for (const auto& [field, value] : json_.items())
      if (std::find(asked_.begin(), asked_.end(), field) == asked_.end())
        return fail(
            fmt::format("has a field that it has no use for: {}{}", quoted_field(field), did_you_mean(field, asked_)));
  }

  std::uint64_t number(const char* field, std::uint64_t most) {
    const Parsed* value = find(field);
    return value == nullptr ? 0 : number(*value, field, most);
  }
  std::uint64_t number(const Parsed& value, const std::string& what, std::uint64_t most) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) return value.get<std::uint64_t>();
    fail(fmt::format("has a wrong {}: not a number from 0 to {}", what, most));
    return 0;
  }
  std::string word(const char* field) {
    const Parsed* value = find(field);
    if (value == nullptr) return {};
    const auto* text = value->get_ptr<const std::string*>();
    if (text != nullptr && is_word(*text)) return *text;
    fail(fmt::format("has a wrong {}: not a word", field));
    return {};
  }
  bool truth(const char* field) {
    const Parsed* value = find(field);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(fmt::format("has a wrong {}: not true or false", field));
    return value->is_boolean() && value->get<bool>();
  }
  /// The elements of a list; none if it is not one.
  const Parsed& list(const char* field) {
    static const Parsed nothing = Parsed::array();
    const Parsed* value = find(field);
    if (value == nullptr) return nothing;
    if (value->is_array()) return *value;
    fail(fmt::format("has a wrong {}: not a list", field));
    return nothing;
  }
  std::vector<std::uint32_t> numbers(const Parsed& values, const std::string& what) {
    std::vector<std::uint32_t> result;
    for (const Parsed& value : values)
      result.push_back(static_cast<std::uint32_t>(number(value, what, most_in_32_bits)));
    return result;
  }
  Block block(const Parsed& value, const char* field) {
    if (value.is_array() && (value.size() == 2 || value.size() == 3) && value[0].is_string()) {
      const auto* space = value[0].get_ptr<const std::string*>();
      const auto found = std::find(spaces.begin(), spaces.end(), *space);
      Block result;
      result.space = static_cast<Space>(found - spaces.begin());
      if (found != spaces.end() && (result.space == Space::scratch) == (value.size() == 3)) {
        result.range = static_cast<RangeId>(number(value[1], field, most_in_32_bits));
        if (value.size() == 3) result.scratch = static_cast<std::uint32_t>(number(value[2], field, most_in_32_bits));
        return result;
      }
    }
    fail(fmt::format("has a wrong {}: not [\"input\" or \"output\", range] or [\"scratch\", range, area]", field));
    return {};
  }
  Block block(const char* field) {
    const Parsed* value = find(field);
    return value == nullptr ? Block{} : block(*value, field);
  }

 private:
  const Parsed* find(const char* field) {
    if (!status_.ok()) return nullptr;
    asked_.emplace_back(field);
    const auto at = json_.find(field);
    if (at != json_.end()) return &*at;
    fail(fmt::format("has no {}", field));
    return nullptr;
  }

  const Parsed& json_;
  std::string where_;
  std::vector<std::string_view> asked_;
  Status status_;
};

Result<Step> step_from(const Parsed& json, const std::string& where, Plan& plan, std::vector<StepId>& after) {
  Reader reader(json, where);
  Step step;
  const std::string kind = reader.word("kind");
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](StepKind each) { return name(each) == kind; });
  if (found == kinds.end()) reader.fail("has no kind of step that there is");
  step.kind = found == kinds.end() ? StepKind::copy : *found;
  if (is_message(step.kind)) {
    step.peer = static_cast<Rank>(reader.number("peer", most_ranks));
    step.message = static_cast<std::uint32_t>(reader.number("message", most_in_32_bits));
  }
  if (has_to(step.kind)) step.to = reader.block("to");
  if (has_from(step.kind)) step.from = reader.block("from");
  if (step.kind == StepKind::recv_reduce) step.incoming_first = reader.truth("incoming_first");
  if (step.kind == StepKind::reduce) {
    const Parsed& operands = reader.list("operands");
    if (operands.size() > static_cast<std::size_t>(plan.size)) {
      reader.fail(
          fmt::format("reduces {} operands; of {} ranks it needs at most one each", operands.size(), plan.size));
      return reader.status();
    }
    step.first_operand = static_cast<std::uint32_t>(plan.operands.size());
    step.operand_count = static_cast<std::uint32_t>(operands.size());
    for (const Parsed& operand : operands) plan.operands.push_back(reader.block(operand, "operands"));
  }
  after = reader.numbers(reader.list("after"), "after");
  std::sort(after.begin(), after.end());
  if (std::adjacent_find(after.begin(), after.end()) != after.end()) reader.fail("waits for a step twice");
  if (!after.empty() && after.back() >= plan.steps.size()) {
    reader.fail(fmt::format("waits for step {}, which does not come before it", after.back()));
  }
  step.dependencies = static_cast<std::uint32_t>(after.size());
  reader.nothing_else();
  if (!reader.status().ok()) return reader.status();
  return step;
}

void add_successors(Plan& plan, const std::vector<std::vector<StepId>>& after) {
  for (const auto& before : after) {
    for (const StepId id : before) ++plan.steps[id].successor_count;
  }
  std::uint32_t first = 0;
  for (Step& step : plan.steps) {
    step.first_successor = first;
    first += std::exchange(step.successor_count, 0);
  }
  plan.successors.resize(first);
  for (StepId id = 0; id < after.size(); ++id) {
    for (const StepId before : after[id]) {
      Step& step = plan.steps[before];
      plan.successors[step.first_successor + step.successor_count++] = id;
    }
  }
}

/// Halving among 4096 ranks cuts 12 times. What is wrong with their order is for check_plan() to say.
Status check_depth(const Plan& plan, const std::string& where) {
  std::vector<std::uint32_t> depth(plan.ranges.size());
  for (std::size_t id = 1; id < plan.ranges.size(); ++id) {
    if (plan.ranges[id].parent >= id) return {};
    depth[id] = depth[plan.ranges[id].parent] + 1;
    if (depth[id] > deepest_range)
      return wrong(fmt::format("{} has ranges inside ranges {} deep (range {}); at most {}", where, depth[id], id,
                               deepest_range));
  }
  return {};
}

Result<Plan> plan_from(const Parsed& json, const std::string& where) {
  Reader reader(json, where);
  if (reader.word("format") != format_name) reader.fail(fmt::format("is not of the format {}", format_name));
  if (reader.number("version", most_in_32_bits) != format_version) {
    reader.fail(fmt::format("is not of version {}", format_version));
  }
  Plan plan;
  const auto collective = parse_collective(reader.word("collective"));
  if (!collective) reader.fail("is of no collective that there is");
  plan.collective = collective.value_or(Collective::allreduce);
  plan.algorithm = reader.word("algorithm");
  plan.size = static_cast<int>(reader.number("size", most_ranks));
  plan.rank = static_cast<Rank>(reader.number("rank", most_ranks));
  plan.root = static_cast<Rank>(reader.number("root", most_ranks));
  plan.largest_message = reader.number("largest_message", std::numeric_limits<std::uint64_t>::max());
  plan.blocks = block_count(plan.collective, plan.size);
  for (const Parsed& item : reader.list("ranges")) {
    const auto numbers = item.is_array() ? reader.numbers(item, "ranges") : std::vector<std::uint32_t>{};
    if (numbers.size() != 4) reader.fail("has a range that is not [parent, first, last, parts]");
    if (numbers.size() == 4) plan.ranges.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  }
  const Parsed& steps = reader.list("steps");
  if (steps.size() > most_steps) reader.fail(fmt::format("has {} steps; at most {}", steps.size(), most_steps));
  const Parsed& scratch = reader.list("scratch");
  if (scratch.size() > steps.size())
    reader.fail(
        fmt::format("has {} areas of scratch; its {} steps write no more than one each", scratch.size(), steps.size()));
  if (reader.status().ok()) plan.scratch = reader.numbers(scratch, "scratch");
  reader.nothing_else();
  if (!reader.status().ok()) return reader.status();
  FABRING_TRY(check_depth(plan, where));

  std::vector<std::vector<StepId>> after(steps.size());
  for (std::size_t id = 0; id < steps.size(); ++id) {
    const auto step = step_from(steps[id], fmt::format("{}, step {},", where, id), plan, after[id]);
    if (!step) return step.error();
    plan.steps.push_back(*step);
  }
  add_successors(plan, after);
  const Status checked = check_plan(plan, ReduceOp::avg);  // avg: finish is allowed
  // internal where a builder of ours made the plan: here it is the text's.
  if (!checked.ok()) return wrong(fmt::format("{}: {}", where, checked.message()));
  return plan;
}

/// What cannot be a plan, before it is parsed: the parser needs memory for every level it opens, and 20 times that of
/// the text for short elements.
std::string what_is_too_much(std::string_view text) {
  std::array<std::size_t, most_nesting + 1> commas{};  // of what is open, by depth; of objects none
  std::array<bool, most_nesting + 1> is_list{};
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        quoted = false;
      }
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '[' || text[i] == '{') {
      if (++depth > most_nesting) return "lists inside lists inside lists";
      commas[depth] = 0;
      is_list[depth] = text[i] == '[';
    } else if (text[i] == ']' || text[i] == '}') {
      if (depth == 0) return {};  // the parser will say so
      --depth;
    } else if (text[i] == ',' && is_list[depth] && ++commas[depth] >= longest_list) {
      return fmt::format("a list of more than {} elements", longest_list);
    }
  }
  return {};
}

Result<Parsed> parse(std::string_view text) {
  if (text.size() > most_plan_bytes)
    return wrong(fmt::format("plans of {} bytes; at most {}", text.size(), most_plan_bytes));
  if (const std::string what = what_is_too_much(text); !what.empty()) return wrong("this is no plan: " + what);
  FABRING_TRY(check_json(text));
  return Parsed::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::string plan_to_json(const Plan& plan) { return plan_json(plan).dump(); }

std::string plans_to_json(std::span<const Plan> plans) {
  std::string text = "[";
  for (const Plan& plan : plans) text += (text.size() > 1 ? ",\n " : "\n ") + plan_to_json(plan);
  return text + "\n]\n";
}

Result<std::vector<Plan>> plans_from_json(std::string_view text) {
  const auto json = parse(text);
  if (!json) return json.error();
  std::vector<Plan> plans;
  if (!json->is_array()) {
    auto plan = plan_from(*json, "the plan");
    if (!plan) return plan.error();
    plans.push_back(std::move(*plan));
    return plans;
  }
  if (json->size() > most_ranks) return wrong(fmt::format("{} plans; at most {}", json->size(), most_ranks));
  for (std::size_t i = 0; i < json->size(); ++i) {
    auto plan = plan_from((*json)[i], fmt::format("plan {}", i));
    if (!plan) return plan.error();
    plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace fabring
