#include "rough_commands.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/reduce/reduce.hpp"
#include "tests/support/rough_input.hpp"

namespace rank_program {
namespace {

using fabring::Communicator;
using fabring::DataType;
using fabring::Operation;
using fabring::Rank;
using fabring::ReduceOp;
using fabring::Reduction;
using fabring::Status;

/// A user's operation, which rounds each time it is called.
void add(void* inout, const void* in, std::size_t count, DataType type, void*) {
  const std::array<const void*, 2> both{inout, in};
  fabring::reduce(type, ReduceOp::sum, inout, both, count);
}

float factor_of(Rank rank) { return 0.7f + 0.3f * static_cast<float>(rank); }

Reduction reduction_of(ReduceOp op, Rank rank) {
  if (op == ReduceOp::user) return Reduction::user(add, nullptr, true);
  return op == ReduceOp::premul_sum ? Reduction::premul_sum(factor_of(rank)) : Reduction(op);
}

struct RoughVector {
  RoughVector(DataType type, ReduceOp op, std::size_t count, int ranks) : folded(count * fabring::size_of(type)) {
    for (Rank rank = 0; rank < ranks; ++rank)
      in.push_back(fabring::fixture::rough_input(type, rank, count, /*salt=*/7));
    std::vector<std::vector<std::byte>> terms = in;
    if (op == ReduceOp::premul_sum)
      for (Rank rank = 0; rank < ranks; ++rank) multiply(type, terms[static_cast<std::size_t>(rank)], rank, count);
    if (op == ReduceOp::user) {
      folded = terms[0];
      for (std::size_t rank = 1; rank < terms.size(); ++rank)
        add(folded.data(), terms[rank].data(), count, type, nullptr);
      return;
    }
    std::vector<const void*> sources;
    for (const auto& values : terms) sources.push_back(values.data());
    fabring::reduce(type, op, folded.data(), sources, count);  // of what is multiplied, a sum
    if (op == ReduceOp::avg) fabring::finish_average(type, folded.data(), count, ranks);
  }

  /// By the factor of its rank, in the precision of the type.
  static void multiply(DataType type, std::vector<std::byte>& values, Rank rank, std::size_t count) {
    const double exact = factor_of(rank);
    const float factor = factor_of(rank);
    const bool is_double = type == DataType::float64;
    fabring::scale(type, values.data(), values.data(), is_double ? static_cast<const void*>(&exact) : &factor, count);
  }

  std::vector<std::vector<std::byte>> in;
  std::vector<std::byte> folded;
};

class Memory {
 public:
  Memory(std::size_t bytes, fabring::Engine* mapped) {
    if (mapped != nullptr) {
      lent_ = mapped->allocate(bytes).value();
      data_ = lent_.data();
      return;
    }
    own_ = std::make_unique<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1);
    data_ = reinterpret_cast<std::byte*>(own_.get());
  }
  std::byte* data() const { return data_; }

 private:
  fabring::MappedBuffer lent_;
  std::unique_ptr<std::max_align_t[]> own_;
  std::byte* data_ = nullptr;
};

}  // namespace

std::string Rounded::digest() const {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

Status reduce_rough(Communicator all, DataType type, ReduceOp op, std::size_t bytes, fabring::Engine* mapped,
                    Rounded& result) {
  const auto ranks = static_cast<std::size_t>(all.size()), self = static_cast<std::size_t>(all.rank());
  const std::size_t block = bytes / fabring::size_of(type) / ranks + 1, count = block * ranks;
  const std::size_t block_bytes = block * fabring::size_of(type), whole = block_bytes * ranks;
  const RoughVector vector(type, op, count, all.size());
  const Rank root = all.size() - 1;
  const Reduction reduction = reduction_of(op, all.rank());
  Memory in(whole, mapped), out(whole, mapped);
  for (const bool in_place : {false, true}) {
    for (const char* what : {"allreduce", "reduce", "reduce_scatter", "tensors"}) {
      const bool scatters = std::string_view(what) == "reduce_scatter";
      std::memcpy(in.data(), vector.in[self].data(), whole);
      std::memset(out.data(), 0x5a, whole);
      std::byte* const to = !in_place ? out.data() : scatters ? in.data() + self * block_bytes : in.data();
      fabring::Tensor tensors[] = {{in.data(), to, block}, {in.data() + block_bytes, to + block_bytes, count - block}};
      const Status done =
          all.run(scatters ? Operation::reduce_scatter(in.data(), to, block, type, reduction)
                  : std::string_view(what) == "reduce"  ? Operation::reduce(in.data(), to, count, type, reduction, root)
                  : std::string_view(what) == "tensors" ? Operation::grouped_allreduce(tensors, type, reduction)
                                                        : Operation::allreduce(in.data(), to, count, type, reduction));
      if (!done.ok()) return done;
      if (std::string_view(what) == "reduce" && all.rank() != root) continue;
      if (!scatters && std::string_view(what) != "reduce")
        for (std::size_t i = 0; i < whole; ++i)  // FNV-1a
          result.bits = (result.bits ^ static_cast<std::uint64_t>(to[i])) * 0x100000001b3u;
      const std::byte* const wanted = vector.folded.data() + (scatters ? self * block_bytes : 0);
      if (std::memcmp(to, wanted, scatters ? block_bytes : whole) != 0 && result.wrong.empty())
        result.wrong = std::string(what) + (in_place ? " in place" : "") + " of " + std::to_string(count) + " elements";
    }
  }
  return {};
}

}  // namespace rank_program
