#include "runtime/engine/call/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/plans/given_plan.hpp"

namespace fabring {
namespace {

// FNV-1a, 32 bits; 0 stands for "no lengths".
class Digest {
 public:
  void add(std::size_t length) {
    for (int shift = 0; shift < 64; shift += 8) hash_ = (hash_ ^ ((length >> shift) & 0xff)) * 16777619u;
  }
  std::uint32_t value() const { return std::max(hash_, 1u); }

 private:
  std::uint32_t hash_ = 2166136261u;
};

// Signature::type: the type below, and what it travels as above: 0 for itself, otherwise that type's number and 1.
constexpr int wire_shift = 4;
constexpr std::uint8_t type_mask = (1 << wire_shift) - 1;
static_assert(data_type_count <= type_mask);

// Signature::op: the operation below, and above StepOf.
constexpr int step_shift = 4;
constexpr std::uint8_t op_mask = (1 << step_shift) - 1;
static_assert(reduce_op_count <= op_mask);

std::string step_text(const Signature& signature) {
  const auto of = static_cast<StepOf>(signature.op >> step_shift);
  return of == StepOf::none ? std::string() : fmt::format(" within {}", name(of));
}

std::string type_text(std::uint8_t signed_type) {
  const auto named = [](int number) {
    return number < data_type_count ? name(static_cast<DataType>(number)) : std::string_view("unknown type");
  };
  const int wire = signed_type >> wire_shift;
  std::string text(named(signed_type & type_mask));
  if (wire != 0) text += fmt::format(" as {}", named(wire - 1));
  return text;
}

// Digest of an alltoall whose lengths only pairs of ranks know.
constexpr std::uint32_t lengths_differ_by_pair = 1;

std::string_view name_of(const Signature& signature) {
  return signature.collective < collective_count ? name(static_cast<Collective>(signature.collective))
                                                 : std::string_view("an unknown collective");
}

// "allreduce(1048576 x float32, sum".
std::string all_but_algorithm(const Signature& signature) {
  const std::string type = type_text(signature.type);
  const bool grouped =
      signature.collective == static_cast<std::uint8_t>(Collective::allreduce) && signature.layout != 0;
  std::string text =
      grouped
          ? fmt::format("grouped_allreduce({} tensors, {} x {}", signature.root, signature.count, type)
          : fmt::format("{}{}({} x {}", name_of(signature), signature.layout == 0 ? "" : "_v", signature.count, type);
  if (signature.layout == lengths_differ_by_pair) {
    text += " between these two";
  } else if (signature.layout != 0) {
    text += " in all";
  }
  const int op = signature.op & op_mask;
  if (reduces(static_cast<Collective>(signature.collective)))
    text += fmt::format(", {}", op < reduce_op_count ? name(static_cast<ReduceOp>(op)) : "unknown operation");
  if (has_root(static_cast<Collective>(signature.collective)))
    text += fmt::format(", root {}", static_cast<std::int32_t>(signature.root));
  return text;
}

}  // namespace

std::string_view name(StepOf of) {
  constexpr std::array<std::string_view, 5> names{"none", "split", "split_by_node", "duplicate", "with_plans"};
  const auto at = static_cast<std::size_t>(of);
  return at < names.size() ? names[at] : "unknown";
}

std::size_t Call::bytes() const {
  std::size_t elements = count * data_blocks;
  if (!counts.empty()) {
    const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(
                                             collective == Collective::alltoall ? counts.size() / 2 : counts.size());
    std::size_t first = 0, second = 0;
    for (auto at = counts.begin(); at != middle; ++at) first += *at;
    for (auto at = middle; at != counts.end(); ++at) second += *at;
    elements = std::max(first, second);
  }
  return elements * size_of(type);
}

std::size_t Call::choice_bytes() const { return lengths_by_pair(*this) ? 0 : carried_bytes(); }

void Call::copy_input() {
  if (const std::byte* const from = std::exchange(uncopied, nullptr)) copy_bytes(owned.get(), from, uncopied_bytes);
}

Signature Call::signature() const {
  Signature signature;
  signature.collective = static_cast<std::uint8_t>(collective);
  signature.type = static_cast<std::uint8_t>(type);
  if (wire_type)
    signature.type = static_cast<std::uint8_t>(signature.type | ((static_cast<int>(*wire_type) + 1) << wire_shift));
  signature.op = static_cast<std::uint8_t>(static_cast<int>(op) | (static_cast<int>(step_of) << step_shift));
  signature.algorithm = given ? given->mark : static_cast<std::uint8_t>(algorithm);
  signature.root = static_cast<std::uint32_t>(root);
  signature.count = count;
  if (lengths_by_pair(*this)) {
    signature.layout = lengths_differ_by_pair;
  } else if (!counts.empty()) {
    Digest digest;
    for (const std::size_t length : counts) digest.add(length);
    signature.layout = digest.value();
    signature.count = bytes() / size_of(type);
  } else if (tensors) {
    Digest digest;
    for (const Tensor& tensor : *tensors) digest.add(tensor.count);
    signature.layout = digest.value();
    signature.root = static_cast<std::uint32_t>(tensors->size());
  }
  return signature;
}

Signature signature_towards(const Call& call, int size, Rank member, RecordKind kind) {
  Signature signature = call.signature();
  if (!lengths_by_pair(call)) return signature;
  const auto block =
      static_cast<std::size_t>(member) + (kind == RecordKind::grant ? 0 : static_cast<std::size_t>(size));
  if (block < call.counts.size()) signature.count = call.counts[block];
  return signature;
}

bool same_call(const Signature& a, const Signature& b) {
  if (a.layout != lengths_differ_by_pair || b.layout != lengths_differ_by_pair ||
      a.collective != static_cast<std::uint8_t>(Collective::alltoall))
    return a == b;
  Signature other = b;
  other.count = a.count;
  return a == other;
}

std::string Call::describe() const {
  if (lengths_by_pair(*this)) return fmt::format("alltoall_v({}, {})", name(type), name(algorithm));
  if (is_message(collective))  // what a signature has of it is the sender's to say
    return fmt::format(
        "{}({} x {}, {} {}, {})", name(collective), count, name(type), collective == Collective::send ? "to" : "from",
        root == any_source ? "anybody" : std::to_string(root), tag == any_tag ? "any tag" : fmt::format("tag {}", tag));
  return fabring::describe(signature());
}

std::string Call::describe_unchosen() const {
  if (lengths_by_pair(*this)) return fmt::format("alltoall_v({})", name(type));
  if (is_message(collective)) return describe();
  const Signature ours = signature();
  return fmt::format("{}){}", all_but_algorithm(ours), step_text(ours));
}

std::string describe(const Signature& signature) {
  if (is_message(static_cast<Collective>(signature.collective)))
    return fmt::format("{}({} x {}, tag {})", name_of(signature), signature.count, type_text(signature.type),
                       static_cast<std::int32_t>(signature.root));
  return fmt::format("{}, {}){}", all_but_algorithm(signature),
                     signature.algorithm < algorithm_count          ? name(static_cast<Algorithm>(signature.algorithm))
                     : (signature.algorithm & given_plan_mark) != 0 ? std::string_view("plans from a file")
                                                                    : std::string_view("unknown algorithm"),
                     step_text(signature));
}

std::string describe_difference(Signature a, const Signature& b) {
  const auto from_file = [](const Signature& one) { return (one.algorithm & given_plan_mark) != 0; };
  if (from_file(a) && from_file(b) && a.algorithm != b.algorithm) return "the plans are of different files";
  if (a.layout == b.layout || a.collective != b.collective) return {};
  if ((a.layout == lengths_differ_by_pair) != (b.layout == lengths_differ_by_pair))
    return "one with a list of lengths, the other without: give one on all ranks, or on none";
  a.layout = b.layout;
  if (a != b) return {};
  const bool tensors = a.collective == static_cast<std::uint8_t>(Collective::allreduce);
  return tensors ? "the tensors' lengths differ, not their sum" : "the lists of lengths differ, not their sum";
}

}  // namespace fabring
