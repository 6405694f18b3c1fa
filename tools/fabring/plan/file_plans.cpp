#include "tools/fabring/plan/file_plans.hpp"

#include <fmt/format.h>

#include <utility>

#include "collectives/ownership.hpp"
#include "collectives/plan_json.hpp"
#include "runtime/base/whole_file.hpp"
#include "runtime/engine/plans/proved_plans.hpp"

namespace fabring::tools {

bool FilePlans::average() const { return are_of_average(plans); }

Result<FilePlans> load_proved_plans(const std::string& path) {
  Result<FilePlans> loaded{FilePlans()};
  auto text = read_whole_file(path, most_plan_bytes);
  if (!text) return text.error();
  if (text->empty()) return Status(ErrorCode::unavailable, "is empty");
  loaded->text = std::move(*text);
  auto proved = prove_plan_text(loaded->text);
  if (!proved) return proved.error();
  loaded->plans = std::move(proved->plans);
  loaded->proof = std::move(proved->proof);
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
