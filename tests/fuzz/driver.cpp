// fuzz_targets NAME [RUNS [SEED]]: the seeds of a target, then RUNS mutations of them. fuzz_targets NAME FILE: the
// contents of a file, once, to see again what libFuzzer found. Knows nothing of coverage; that is libFuzzer's part.

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz {
namespace {

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
  Seeds (*seeds)();
};

constexpr Target targets[] = {
    {"hello", hello::run, hello::seeds},
    {"handshake", handshake::run, handshake::seeds},
    {"frame_stream", frame_stream::run, frame_stream::seeds},
    {"meeting_wire", meeting_wire::run, meeting_wire::seeds},
    {"control_wire", control_wire::run, control_wire::seeds},
    {"identity", identity::run, identity::seeds},
    {"addresses", addresses::run, addresses::seeds},
    {"tcp_lane", tcp_lane::run, tcp_lane::seeds},
    {"parcels", parcels::run, parcels::seeds},
    {"engine", engine::run, engine::seeds},
    {"shm_inbox", shm_inbox::run, shm_inbox::seeds},
    {"shm_fast", shm_fast::run, shm_fast::seeds},
    {"tickets", tickets::run, tickets::seeds},
    {"values", values::run, values::seeds},
    {"environment", environment::run, environment::seeds},
    {"overrides", overrides::run, overrides::seeds},
    {"host_lists", host_lists::run, host_lists::seeds},
    {"interfaces", interfaces::run, interfaces::seeds},
    {"machine_file", machine_file::run, machine_file::seeds},
    {"system_files", system_files::run, system_files::seeds},
    {"plan_json", plan_json::run, plan_json::seeds},
    {"status", status::run, status::seeds},
    {"rank_state", rank_state::run, rank_state::seeds},
    {"letters", letters::run, letters::seeds},
    {"agent_wire", agent_wire::run, agent_wire::seeds},
    {"net_facts", net_facts::run, net_facts::seeds},
    {"measurements", measurements::run, measurements::seeds},
    {"log_lines", log_lines::run, log_lines::seeds},
};

class Mutator {
 public:
  Mutator(const Seeds& seeds, std::uint64_t seed) : seeds_(seeds), chance_(seed) {}

  std::string next() {
    std::string input = any_seed();
    for (std::size_t left = 1 + below(4); left > 0; --left) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(chance_() % limit); }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }
  char any_byte() { return static_cast<char>(chance_()); }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size() + 1), left = input.size() - at;
    switch (below(8)) {
      case 0:
        if (left > 0) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (left > 0) input[at] = any_byte();
        break;
      case 2:
        input.insert(at, 1 + below(8), any_byte());
        break;
      case 3:
        input.erase(at, 1 + below(8));
        break;
      case 4:
        input.resize(at);
        break;
      case 5: {  // a number at its limits, 1 to 8 bytes long, little-endian
        constexpr std::uint64_t limits[] = {0,          1,          0x7f,       0x80,  0xff,
                                            0x7fffffff, 0x80000000, 0xffffffff, ~0ull, ~0ull / 2};
        std::uint64_t number = limits[below(std::size(limits))];
        for (std::size_t i = 0, bytes = std::min<std::size_t>(left, 1u << below(4)); i < bytes; ++i, number >>= 8)
          input[at + i] = static_cast<char>(number);
        break;
      }
      case 6: {  // a piece of another seed
        const std::string& other = any_seed();
        const std::size_t from = below(other.size() + 1);
        input.insert(at, other, from, below(64));
        break;
      }
      default:  // what stands elsewhere, again
        input.insert(at, input.substr(below(input.size() + 1), below(32)));
    }
  }

  const Seeds& seeds_;
  std::mt19937_64 chance_;
};

std::uint64_t number_in(std::string_view text, std::uint64_t otherwise) {
  std::uint64_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int main_of(const std::vector<std::string>& arguments) {
  const auto named = [&](const Target& target) { return !arguments.empty() && target.name == arguments[0]; };
  const Target* const target = std::find_if(std::begin(targets), std::end(targets), named);
  if (target == std::end(targets)) {
    std::cerr << "usage: fuzz_targets NAME [RUNS [SEED]] | NAME FILE\nnames:";
    for (const Target& each : targets) std::cerr << ' ' << each.name;
    std::cerr << '\n';
    return 2;
  }
  struct stat file {};
  if (arguments.size() > 1 && ::stat(arguments[1].c_str(), &file) == 0) {
    std::ifstream in(arguments[1], std::ios::binary);
    target->run(std::string(std::istreambuf_iterator<char>(in), {}));
    return 0;
  }
  const Seeds seeds = target->seeds();
  for (const std::string& seed : seeds) target->run(seed);
  const std::uint64_t runs = number_in(arguments.size() > 1 ? arguments[1] : "", 1000);
  Mutator mutator(seeds, number_in(arguments.size() > 2 ? arguments[2] : "", 1));
  for (std::uint64_t i = 0; i < runs; ++i) target->run(mutator.next());
  std::cout << target->name << ": " << seeds.size() << " seeds, " << runs << " mutations\n";
  return 0;
}

}  // namespace
}  // namespace fabring::fuzz

int main(int argc, char** argv) { return fabring::fuzz::main_of({argv + 1, argv + argc}); }
