#include "rough_commands.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace rank_program {
namespace {

using fabring::Communicator;
using fabring::DataType;
using fabring::Operation;
using fabring::Rank;
using fabring::ReduceOp;
using fabring::Status;

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Any sign and fraction, exponents around one: sums round at nearly every step.
std::uint64_t rough_bits(DataType type, std::uint64_t noise) {
  const auto made = [&](int fraction, int exponent_of_one) {
    const std::uint64_t sign = noise >> 63 << (fraction + (type == DataType::float64   ? 11
                                                           : type == DataType::float16 ? 5
                                                                                       : 8));
    const auto exponent = static_cast<std::uint64_t>(exponent_of_one) - 4 + (noise >> 56) % 8;
    return sign | exponent << fraction | (noise & ((std::uint64_t{1} << fraction) - 1));
  };
  switch (type) {
    case DataType::float64:
      return made(52, 1023);
    case DataType::float16:
      return made(10, 15);
    case DataType::bfloat16:
      return made(7, 127);
    default:
      return made(23, 127);
  }
}

class RoughVector {
 public:
  RoughVector(DataType type, ReduceOp op, std::size_t count, int ranks) : element_(fabring::size_of(type)) {
    std::vector<const void*> sources;
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte> values(count * element_);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = rough_bits(type, mixed(mixed(i) + static_cast<std::uint64_t>(rank)));
        std::memcpy(values.data() + i * element_, &bits, element_);  // the low bytes come first
      }
      in.push_back(std::move(values));
    }
    for (const auto& values : in) sources.push_back(values.data());
    folded.resize(count * element_);
    fabring::reduce(type, op, folded.data(), sources, count);
    if (op == ReduceOp::avg) fabring::finish_average(type, folded.data(), count, ranks);
  }
  std::vector<std::vector<std::byte>> in;
  std::vector<std::byte> folded;

 private:
  std::size_t element_;
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
  Memory in(whole, mapped), out(whole, mapped);
  for (const bool in_place : {false, true}) {
    for (const char* what : {"allreduce", "reduce", "reduce_scatter", "tensors"}) {
      const bool scatters = std::string_view(what) == "reduce_scatter";
      std::memcpy(in.data(), vector.in[self].data(), whole);
      std::memset(out.data(), 0x5a, whole);
      std::byte* const to = !in_place ? out.data() : scatters ? in.data() + self * block_bytes : in.data();
      fabring::Tensor tensors[] = {{in.data(), to, block}, {in.data() + block_bytes, to + block_bytes, count - block}};
      const Status done =
          all.run(scatters                              ? Operation::reduce_scatter(in.data(), to, block, type, op)
                  : std::string_view(what) == "reduce"  ? Operation::reduce(in.data(), to, count, type, op, root)
                  : std::string_view(what) == "tensors" ? Operation::grouped_allreduce(tensors, type, op)
                                                        : Operation::allreduce(in.data(), to, count, type, op));
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
