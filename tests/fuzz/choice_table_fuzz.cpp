// Rank 0's table of algorithms, as the others take it over.

#include "collectives/choice/table.hpp"

#include "collectives/ownership.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::choice_table {
namespace {
constexpr WorldShape shape{6, 2, 2, 4};
}

void run(std::string_view input) {
  const auto table = ChoiceTable::from_bytes(input, shape);
  if (!table) return require(table.error().code() == ErrorCode::mismatch, "what is refused is a mismatch");
  const std::string written = table->to_bytes();
  const auto again = ChoiceTable::from_bytes(written, shape);
  require(again && *again == *table, "what was accepted can be written and read");
  for (int c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, ~std::uint64_t{0}}) {
      const Chosen chosen = table->choose(collective, bytes);
      require(chosen.reason == ChoiceReason::nothing_fits || has_algorithm(collective, chosen.algorithm),
              "what is chosen the collective has");
      (void)reason_text(chosen, collective, bytes, shape);
    }
  }
}

Seeds seeds() {
  const Machine machine = *find_machine("10g");
  return {
      ChoiceTable::make(shape, machine).to_bytes(),
      ChoiceTable::make(shape, machine, *parse_overrides("allreduce:64K-4M:ring,broadcast:chain,direct")).to_bytes()};
}

}  // namespace fabring::fuzz::choice_table
