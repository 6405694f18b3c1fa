#include "tests/support/collective_data.hpp"

#include <algorithm>
#include <array>

#include "collectives/reduce/reduce.hpp"
#include "tests/support/exact_data.hpp"
#include "tests/support/rough_input.hpp"

namespace fabring::fixture {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte untouched{0x5a};  // what an output holds before

void add_elements(void* inout, const void* in, std::size_t count, DataType type, void*) {
  const std::array<const void*, 2> both{inout, in};
  reduce(type, ReduceOp::sum, inout, both, count);
}

Reduction reduction_of(ReduceOp op) {
  if (op == ReduceOp::user) return Reduction::user(add_elements, nullptr, true);
  if (op == ReduceOp::premul_sum) return Reduction::premul_sum(premul_factor);
  return op;
}

// What `from` has for `to`, where only moving counts.
Bytes piece(const Request& what, Rank from, Rank to, int ranks, std::size_t count) {
  return input_of(what.type, ReduceOp::sum, from, ranks, count,
                  what.salt * 1000003 + static_cast<std::uint64_t>(from * ranks + to));
}

class Layout {
 public:
  Layout(const std::vector<std::size_t>& counts, bool apart) : counts_(counts), offsets_(counts.size()) {
    std::size_t next = apart ? 1 : 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const std::size_t i = apart ? counts.size() - 1 - k : k;
      offsets_[i] = next;
      next += counts[i] + (apart ? 1 + i % 2 : 0);
    }
    end_ = next;
  }
  std::size_t end() const { return end_; }  // elements
  const std::vector<std::size_t>& offsets() const { return offsets_; }
  std::size_t at(Rank rank) const { return offsets_[static_cast<std::size_t>(rank)]; }
  std::size_t count(Rank rank) const { return counts_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::size_t> counts_, offsets_;
  std::size_t end_ = 0;
};

class Writer {
 public:
  explicit Writer(DataType type) : element_(size_of(type)) {}
  Bytes blank(std::size_t elements) const { return Bytes(elements * element_, untouched); }
  void put(Bytes& buffer, std::size_t at, const Bytes& data) const {
    std::copy(data.begin(), data.end(), buffer.begin() + static_cast<std::ptrdiff_t>(at * element_));
  }
  Bytes cut(const Bytes& data, std::size_t at, std::size_t count) const {
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(at * element_);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(count * element_));
  }

 private:
  std::size_t element_;
};

}  // namespace

Operation RankData::operation(const Request& what, const std::byte* in_buffer, std::byte* out_buffer) const {
  Operation made;
  made.collective = what.collective;
  made.in = in_buffer;
  made.out = out_buffer;
  made.count = what.counts.empty() ? what.count : 0;
  made.type = what.type;
  made.reduction = reduction_of(what.op);
  made.root = what.root;
  made.tag = what.tag;
  made.by_blocks = !what.counts.empty();
  made.blocks = {counts, offsets};
  made.out_blocks = {out_counts, out_offsets};
  return made;
}

RankData data_of(const Request& what, Rank rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto self = static_cast<std::size_t>(rank);
  const Writer writer(what.type);
  const bool root = what.root == rank;
  RankData data;
  const std::vector<std::size_t> lengths = what.counts.empty() ? std::vector<std::size_t>(n, what.count) : what.counts;
  const bool v = !what.counts.empty();
  std::size_t place = 0;  // elements: of the small buffer in the large one
  bool input_is_large = true;
  switch (what.collective) {
    case Collective::allreduce:
    case Collective::reduce:
      data.in = what.rough ? rough_input(what.type, rank, what.count, what.salt)
                           : input_of(what.type, what.op, rank, ranks, what.count, what.salt);
      data.out = writer.blank(what.collective == Collective::allreduce || root ? what.count : 0);
      data.out_after =
          data.out.empty() || what.rough ? data.out : output_of(what.type, what.op, ranks, what.count, what.salt);
      break;
    case Collective::reduce_scatter: {
      const Layout layout(lengths, v && what.apart);
      data.in = input_of(what.type, what.op, rank, ranks, layout.end(), what.salt);
      data.out = writer.blank(layout.count(rank));
      data.out_after = writer.cut(output_of(what.type, what.op, ranks, layout.end(), what.salt), layout.at(rank),
                                  layout.count(rank));
      place = layout.at(rank);
      data.offsets = layout.offsets();
      break;
    }
    case Collective::all_gather:
    case Collective::gather: {
      const Layout layout(lengths, v && what.apart);
      data.in = piece(what, rank, rank, ranks, layout.count(rank));
      if (what.collective == Collective::all_gather || root) data.out = writer.blank(layout.end());
      data.out_after = data.out;
      if (!data.out.empty())
        for (Rank from = 0; from < ranks; ++from)
          writer.put(data.out_after, layout.at(from), piece(what, from, from, ranks, layout.count(from)));
      place = layout.at(rank);
      input_is_large = false;
      data.offsets = layout.offsets();
      break;
    }
    case Collective::broadcast:
      if (root) data.in = piece(what, rank, rank, ranks, what.count);
      data.out = writer.blank(what.count);
      data.out_after = piece(what, what.root, what.root, ranks, what.count);
      break;
    case Collective::scatter: {
      const Layout layout(lengths, v && what.apart);
      if (root) {
        data.in = writer.blank(layout.end());
        for (Rank to = 0; to < ranks; ++to)
          writer.put(data.in, layout.at(to), piece(what, rank, to, ranks, layout.count(to)));
      }
      data.out = writer.blank(layout.count(rank));
      data.out_after = piece(what, what.root, rank, ranks, layout.count(rank));
      place = layout.at(rank);
      data.offsets = layout.offsets();
      break;
    }
    case Collective::alltoall: {
      std::vector<std::size_t> sent(n, what.count), received(n, what.count);
      for (std::size_t i = 0; v && i < n; ++i) {
        sent[i] = what.counts[self * n + i];
        received[i] = what.counts[i * n + self];
      }
      const Layout from(sent, v && what.apart), to(received, v && what.apart);
      data.in = writer.blank(from.end());
      data.out = writer.blank(to.end());
      data.out_after = data.out;
      for (Rank other = 0; other < ranks; ++other) {
        writer.put(data.in, from.at(other), piece(what, rank, other, ranks, from.count(other)));
        writer.put(data.out_after, to.at(other), piece(what, other, rank, ranks, to.count(other)));
      }
      if (v) {
        data.counts = sent;
        data.offsets = from.offsets();
        data.out_counts = received;
        data.out_offsets = to.offsets();
      }
      break;
    }
    case Collective::send:
      data.in = piece(what, rank, what.root, ranks, what.count);
      break;
    case Collective::recv:
      data.out = writer.blank(what.count);
      data.out_after = piece(what, what.root, rank, ranks, what.count);
      break;
    case Collective::barrier:
      break;
  }
  if (v && what.collective != Collective::alltoall) data.counts = what.counts;
  if (!v || !what.apart) data.offsets.clear(), data.out_offsets.clear();
  data.in_after = data.in;
  const bool both = !data.in.empty() && !data.out.empty();
  if (!what.in_place || !both) return data;
  data.one_buffer = true;
  const std::size_t element = size_of(what.type);
  if (input_is_large) {
    data.out_at = place * element;
    data.out = data.in;
    std::copy(data.out_after.begin(), data.out_after.end(), data.in.begin() + static_cast<std::ptrdiff_t>(data.out_at));
    data.out_after = std::move(data.in);
  } else {
    data.in_at = place * element;
    std::copy(data.in.begin(), data.in.end(), data.out.begin() + static_cast<std::ptrdiff_t>(data.in_at));
  }
  data.in.clear();
  data.in_after.clear();
  return data;
}

std::vector<Algorithm> algorithms_of(Collective collective) {
  std::vector<Algorithm> all;
  for (const Algorithm algorithm : all_algorithms())
    if (has_algorithm(collective, algorithm)) all.push_back(algorithm);
  return all;
}

Algorithm any_algorithm(Collective collective, std::mt19937_64& chance) {
  const auto all = algorithms_of(collective);
  return all[chance() % all.size()];
}

Request any_request(Collective collective, int ranks, std::size_t count, std::mt19937_64& chance) {
  const auto n = static_cast<std::size_t>(ranks);
  Request what;
  what.collective = collective;
  what.count = count;
  what.type = static_cast<DataType>(chance() % data_type_count);
  do {
    what.op = static_cast<ReduceOp>(chance() % reduce_op_count);
  } while (!supports(what.type, what.op));
  what.in_place = chance() % 2 == 0;
  what.salt = chance() % 1000;
  what.root = static_cast<Rank>(chance() % n);
  const bool blocks = collective == Collective::reduce_scatter || collective == Collective::all_gather ||
                      collective == Collective::gather || collective == Collective::scatter ||
                      collective == Collective::alltoall;
  if (blocks && chance() % 2 == 0) {
    what.counts.resize(collective == Collective::alltoall ? n * n : n);
    for (auto& length : what.counts) length = chance() % 4 == 0 ? 0 : chance() % (2 * count + 1);
    what.apart = chance() % 2 == 0;
    if (collective == Collective::alltoall) what.in_place = false;  // different layouts in one buffer: not a use
  }
  return what;
}

}  // namespace fabring::fixture
