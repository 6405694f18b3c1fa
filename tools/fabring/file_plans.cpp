#include "tools/fabring/file_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/ownership.hpp"
#include "runtime/base/whole_file.hpp"
#include "tools/fabring/plan_json.hpp"

namespace fabring::tools {

bool FilePlans::average() const {
  return std::ranges::any_of(plans, [](const Plan& plan) {
    return std::ranges::any_of(plan.steps, [](const Step& step) { return step.kind == StepKind::finish; });
  });
}

Result<FilePlans> load_proved_plans(const std::string& path) {
  Result<FilePlans> loaded{FilePlans()};
  auto text = read_whole_file(path, most_plan_bytes);
  if (!text) return text.error();
  if (text->empty()) return Status(ErrorCode::unavailable, "is empty");
  loaded->text = std::move(*text);
  auto plans = plans_from_json(loaded->text);
  if (!plans) return Status(ErrorCode::mismatch, plans.error().message());
  if (plans->empty()) return Status(ErrorCode::mismatch, "there are no plans in it");
  loaded->plans = std::move(*plans);
  auto proof = prove_plans(loaded->plans, loaded->average() ? ReduceOp::avg : ReduceOp::sum);
  if (!proof) return Status(ErrorCode::mismatch, "not proved: " + proof.error().message());
  if (!proof->lengths_at_every_count)
    return Status(
        ErrorCode::unsupported,
        "cannot be run: its ranges are too many, or of too many parts, to prove lengths at every count of elements");
  loaded->proof = std::move(*proof);
  return loaded;
}

Status check_use(const FilePlans& plans, Collective collective, Rank root, ReduceOp op) {
  const auto wrong = [](std::string what) { return Status(ErrorCode::invalid_argument, std::move(what)); };
  if (plans.collective() != collective)
    return wrong(fmt::format("its plans are of {}, not {}", name(plans.collective()), name(collective)));
  if (has_root(collective) && plans.plans[0].root != root)
    return wrong(fmt::format("its plans have root {}, and -r says {}", plans.plans[0].root, root));
  if (!reduces(collective) || plans.ranks() == 1 || plans.average() == (op == ReduceOp::avg)) return {};
  return wrong(plans.average() ? fmt::format("its plans are of avg, not {}: give -o avg", name(op))
                               : std::string("its plans are not of avg, which divides: write them with -o avg"));
}

}  // namespace fabring::tools
