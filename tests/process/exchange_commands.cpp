#include "exchange_commands.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace rank_program {
namespace {

using fabring::Blocks;
using fabring::Communicator;
using fabring::DataType;
using fabring::Operation;
using fabring::Rank;
using fabring::ReduceOp;
using fabring::Status;

constexpr std::int32_t untouched = -77;

std::int32_t value(Rank from, Rank to, int step, std::size_t index) {
  return static_cast<std::int32_t>(from * 1'000'003 + to * 10'007 + step * 101 + static_cast<int>(index % 8191));
}

/// Elements from one rank to another: 0 for some.
std::size_t length(Rank from, Rank to, int step, std::size_t unit) {
  return static_cast<std::size_t>((from * 7 + to * 3 + step) % 5) * unit;
}

/// Blocks with gaps between them, in memory of their own.
struct Placed {
  explicit Placed(std::vector<std::size_t> lengths) : counts(std::move(lengths)) {
    std::size_t at = 3;
    for (const std::size_t count : counts) {
      offsets.push_back(at);
      at += count + 5;
    }
    data.assign(at, untouched);
  }
  Blocks blocks() const { return {counts, offsets}; }

  template <class Value>
  void fill(Value&& value_of) {
    for (std::size_t block = 0; block < counts.size(); ++block)
      for (std::size_t i = 0; i < counts[block]; ++i) data[offsets[block] + i] = value_of(static_cast<Rank>(block), i);
  }
  /// The first element that is wrong, gaps included.
  template <class Value>
  std::string wrong(Value&& value_of) const {
    Placed expected(counts);
    expected.fill(value_of);
    for (std::size_t i = 0; i < data.size(); ++i)
      if (data[i] != expected.data[i])
        return "element " + std::to_string(i) + " is " + std::to_string(data[i]) + " and not " +
               std::to_string(expected.data[i]);
    return {};
  }

  std::vector<std::size_t> counts, offsets;
  std::vector<std::int32_t> data;
};

Exchanged all_to_all(Communicator& all, int step, std::size_t unit) {
  std::vector<std::size_t> sent, received;
  for (Rank other = 0; other < all.size(); ++other) {
    sent.push_back(length(all.rank(), other, step, unit));
    received.push_back(length(other, all.rank(), step, unit));
  }
  Placed in(sent), out(received);
  in.fill([&](Rank to, std::size_t i) { return value(all.rank(), to, step, i); });
  Status done =
      all.run(Operation::alltoall_v(in.data.data(), in.blocks(), out.data.data(), out.blocks(), DataType::int32));
  return {std::move(done), out.wrong([&](Rank from, std::size_t i) { return value(from, all.rank(), step, i); })};
}

Exchanged gather_to_all(Communicator& all, int step, std::size_t unit) {
  std::vector<std::size_t> lengths;
  for (Rank other = 0; other < all.size(); ++other) lengths.push_back(length(other, other, step, unit));
  Placed out(lengths);
  std::vector<std::int32_t> in(lengths[static_cast<std::size_t>(all.rank())]);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(all.rank(), 0, step, i);
  Status done = all.run(Operation::all_gather_v(in.data(), out.data.data(), out.blocks(), DataType::int32));
  return {std::move(done), out.wrong([&](Rank from, std::size_t i) { return value(from, 0, step, i); })};
}

/// Sums of whole numbers: right in every order.
Exchanged reduce_to_each(Communicator& all, int step, std::size_t unit) {
  std::vector<std::size_t> lengths;
  for (Rank other = 0; other < all.size(); ++other) lengths.push_back(length(other, other, step, unit));
  Placed in(lengths);
  in.fill([&](Rank to, std::size_t i) { return value(all.rank(), to, step, i); });
  std::vector<std::int32_t> out(lengths[static_cast<std::size_t>(all.rank())] + 1, untouched);
  Status done =
      all.run(Operation::reduce_scatter_v(in.data.data(), out.data(), in.blocks(), DataType::int32, ReduceOp::sum));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int32_t expected = i + 1 < out.size() ? 0 : untouched;
    for (Rank from = 0; i + 1 < out.size() && from < all.size(); ++from) expected += value(from, all.rank(), step, i);
    if (done.ok() && out[i] != expected) return {{}, "element " + std::to_string(i) + " of a reduce_scatter_v"};
  }
  return {std::move(done), ""};
}

Exchanged gather_to_one(Communicator& all, int step, std::size_t unit) {
  const Rank root = step % all.size();
  std::vector<std::size_t> lengths;
  for (Rank other = 0; other < all.size(); ++other) lengths.push_back(length(other, root, step, unit));
  Placed out(lengths);
  std::vector<std::int32_t> in(lengths[static_cast<std::size_t>(all.rank())]);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(all.rank(), root, step, i);
  Status done = all.run(Operation::gather_v(in.data(), out.data.data(), out.blocks(), DataType::int32, root));
  if (all.rank() == root) {
    const std::string wrong = out.wrong([&](Rank from, std::size_t i) { return value(from, root, step, i); });
    return {std::move(done), wrong.empty() ? "" : wrong + " in a gather_v"};
  }
  const bool left_alone = std::all_of(out.data.begin(), out.data.end(), [](auto each) { return each == untouched; });
  return {std::move(done), left_alone ? "" : "the output of a gather_v on a rank that has none"};
}

Exchanged scatter_from_one(Communicator& all, int step, std::size_t unit) {
  const Rank root = step % all.size();
  std::vector<std::size_t> lengths;
  for (Rank other = 0; other < all.size(); ++other) lengths.push_back(length(root, other, step, unit));
  Placed in(lengths);
  if (all.rank() == root) in.fill([&](Rank to, std::size_t i) { return value(root, to, step, i); });
  std::vector<std::int32_t> out(lengths[static_cast<std::size_t>(all.rank())] + 1, untouched), expected = out;
  for (std::size_t i = 0; i + 1 < out.size(); ++i) expected[i] = value(root, all.rank(), step, i);
  Status done = all.run(Operation::scatter_v(in.data.data(), out.data(), in.blocks(), DataType::int32, root));
  return {std::move(done), out == expected ? "" : "an element of a scatter_v"};
}

Exchanged around_the_ring(Communicator& all, int step, std::size_t unit) {
  const int n = all.size();
  const Rank right = (all.rank() + 1) % n, left = (all.rank() + n - 1) % n;
  const auto message = [&](Rank from, Rank to) {
    std::vector<std::int32_t> data(length(from, to, step, unit) + 1);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(from, to, step, i);
    return data;
  };
  const std::vector<std::int32_t> to_right = message(all.rank(), right), to_left = message(all.rank(), left);
  const std::vector<std::int32_t> expected_left = message(left, all.rank()),
                                  expected_right = message(right, all.rank());
  std::vector<std::int32_t> from_left(expected_left.size()), from_right(expected_right.size());
  // Tags tell them apart where left and right are the same rank.
  const std::array<Operation, 4> group{
      Operation::recv(from_left.data(), from_left.size(), DataType::int32, left, 1),
      Operation::recv(from_right.data(), from_right.size(), DataType::int32, right, 2),
      Operation::send(to_left.data(), to_left.size(), DataType::int32, left, 2),
      Operation::send(to_right.data(), to_right.size(), DataType::int32, right, 1),
  };
  Exchanged result;
  result.status = all.run_group(group);
  if (from_left != expected_left) result.wrong = "the message from the left";
  if (from_right != expected_right) result.wrong = "the message from the right";
  return result;
}

Exchanged to_the_first(Communicator& all, int step, std::size_t unit) {
  if (all.rank() != 0) {
    const std::size_t count = length(all.rank(), 0, step, unit);
    std::vector<std::int32_t> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = value(all.rank(), 0, step, i);
    return {all.send(data.data(), count, DataType::int32, 0, 100 + all.rank()), ""};
  }
  std::vector<bool> heard(static_cast<std::size_t>(all.size()), false);
  for (int i = 1; i < all.size(); ++i) {
    std::vector<std::int32_t> room(4 * unit + 1, untouched);
    fabring::Work work = all.start(Operation::recv(room.data(), room.size(), DataType::int32, fabring::any_source));
    if (Status done = work.wait(); !done.ok()) return {std::move(done), ""};
    const fabring::Received got = work.received();
    if (got.source < 1 || got.source >= all.size() || heard[static_cast<std::size_t>(got.source)])
      return {{}, "a message from rank " + std::to_string(got.source) + " that it did not send"};
    heard[static_cast<std::size_t>(got.source)] = true;
    if (got.tag != 100 + got.source || got.count != length(got.source, 0, step, unit))
      return {{}, "tag or length of the message from rank " + std::to_string(got.source)};
    for (std::size_t at = 0; at < room.size(); ++at)
      if (room[at] != (at < got.count ? value(got.source, 0, step, at) : untouched))
        return {{}, "element " + std::to_string(at) + " of the message from rank " + std::to_string(got.source)};
  }
  return {};
}

/// The sum over all ranks, `unit` elements at a time.
Exchanged sums(Communicator& all, int steps, std::size_t unit) {
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int32_t> data(unit + static_cast<std::size_t>(step)), expected(data.size(), 0);
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = value(all.rank(), 0, step, i);
      for (Rank rank = 0; rank < all.size(); ++rank) expected[i] += value(rank, 0, step, i);
    }
    Status done = all.allreduce(data.data(), data.data(), data.size(), DataType::int32, ReduceOp::sum);
    if (!done.ok()) return {std::move(done), ""};
    if (data != expected) return {{}, "a sum in step " + std::to_string(step)};
  }
  return {};
}

}  // namespace

Exchanged exchange_blocks(Communicator communicator, int steps, std::size_t unit) {
  for (int step = 0; step < steps; ++step)
    for (auto* exchange : {all_to_all, gather_to_all, reduce_to_each, gather_to_one, scatter_from_one})
      if (Exchanged result = exchange(communicator, step, unit); !result.status.ok() || !result.wrong.empty())
        return result;
  return {};
}

Exchanged exchange_messages(Communicator communicator, int steps, std::size_t unit) {
  for (int step = 0; step < steps; ++step) {
    for (auto* exchange : {around_the_ring, to_the_first})
      if (Exchanged result = exchange(communicator, step, unit); !result.status.ok() || !result.wrong.empty())
        return result;
    // Nobody goes on before all are through: what the first rank takes from anyone, with any tag, is meant for it.
    if (Status done = communicator.barrier(); !done.ok()) return {std::move(done), ""};
  }
  return {};
}

Exchanged exchange_crossed(Communicator communicator, int steps, std::size_t unit) {
  auto first = communicator.duplicate("first"), second = communicator.duplicate("second");
  if (!first || !second) return {!first ? first.error() : second.error(), ""};
  if (communicator.rank() % 2 == 1) std::swap(*first, *second);
  // Begun in opposite orders while nobody waits: what one holds back must not be what the other needs.
  std::vector<std::int32_t> a(8 * unit, 1), b(8 * unit, 2);
  fabring::Work one = first->allreduce_async(a.data(), a.data(), a.size(), DataType::int32, ReduceOp::sum);
  fabring::Work two = second->allreduce_async(b.data(), b.data(), b.size(), DataType::int32, ReduceOp::sum);
  for (fabring::Work* each : {&one, &two})
    if (Status done = each->wait(); !done.ok()) return {std::move(done), ""};
  // a and b changed places with the communicators on odd ranks.
  const std::int32_t odd = communicator.size() / 2, even = communicator.size() - odd;
  const bool swapped = communicator.rank() % 2 == 1;
  const std::int32_t of_first = even + 2 * odd, of_second = 2 * even + odd;
  const auto all_are = [](const std::vector<std::int32_t>& data, std::int32_t right) {
    return std::all_of(data.begin(), data.end(), [=](std::int32_t each) { return each == right; });
  };
  if (!all_are(a, swapped ? of_second : of_first) || !all_are(b, swapped ? of_first : of_second))
    return {{}, "a sum of those begun in opposite orders"};

  const auto use = [&](Communicator& on) { return sums(on, steps, on.label() == "first" ? unit : 2 * unit); };
  Exchanged beside;
  std::thread thread([&] { beside = use(*first); });
  Exchanged here = use(*second);
  thread.join();
  return here.status.ok() && here.wrong.empty() ? beside : here;
}

Exchanged exchange_crowd(Communicator communicator, int steps, std::size_t unit) {
  std::vector<Communicator> crowd;
  for (int i = 0; i < 16; ++i) {
    auto one = communicator.duplicate("crowd " + std::to_string(i));
    if (!one) return {one.error(), ""};
    crowd.push_back(std::move(*one));
  }
  // Odd ranks begin with the last, so that all of them are under way together.
  if (communicator.rank() % 2 == 1) std::reverse(crowd.begin(), crowd.end());
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<std::int32_t>> data(crowd.size(), std::vector<std::int32_t>(unit, 1));
    std::vector<fabring::Work> works;
    for (std::size_t i = 0; i < crowd.size(); ++i)
      works.push_back(crowd[i].allreduce_async(data[i].data(), data[i].data(), unit, DataType::int32, ReduceOp::sum));
    for (fabring::Work& work : works)
      if (Status done = work.wait(); !done.ok()) return {std::move(done), ""};
    for (const auto& sum : data)
      if (sum != std::vector<std::int32_t>(unit, communicator.size())) return {{}, "a sum of a crowd"};
  }
  return {};
}

}  // namespace rank_program
