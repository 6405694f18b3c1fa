#include "tests/transports/conformance/world.hpp"

#include <algorithm>
#include <array>

#include "tests/support/faulty_endpoint.hpp"

namespace fabring::conformance {
namespace {

constexpr auto deadline = std::chrono::seconds(40);  // far beyond what a loaded machine with a sanitizer needs
constexpr Slot connect_slot = 0xfffffff0;

}  // namespace

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes data(bytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : data) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return data;
}

Fabric faulty(Fabric fabric, std::uint32_t seed) {
  fabric.name += "Faulty";
  fabric.decorate = [seed](std::unique_ptr<Endpoint> inner, Rank rank) {
    Faults faults;
    faults.seed = seed + static_cast<std::uint32_t>(rank);
    faults.storm_start = 0.05;
    faults.storm_posts = 20;
    faults.hold_back = 0.5;
    faults.reorder = true;
    return std::make_unique<FaultyEndpoint>(std::move(inner), faults);
  };
  return fabric;
}

World::World(const Fabric& fabric, int size) : transport_(fabric.transport()), ranks_(static_cast<std::size_t>(size)) {
  for (Rank rank = 0; rank < size; ++rank) {
    Member& member = ranks_[static_cast<std::size_t>(rank)];
    member.options.self = rank;
    member.options.world_size = size;
    member.options.bind_address = fabric.bind_address;
    member.options.job_nonce = 0x1122334455667788;
    member.options.job_id = "conformance";
    member.options.config = fabric.config;
    auto endpoint = transport_->open(member.options);
    if (!endpoint) {
      ADD_FAILURE() << "rank " << rank << ": " << endpoint.error().to_string();
      std::abort();
    }
    member.endpoint = std::move(*endpoint);
    if (fabric.decorate) member.endpoint = fabric.decorate(std::move(member.endpoint), rank);
  }
  for (Rank rank = 0; rank < size; ++rank) {
    for (Rank peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const Status added = at(rank).add_peer(peer, at(peer).address());
      EXPECT_TRUE(added.ok()) << added.to_string();
    }
  }
}

World::~World() = default;

std::optional<std::uint64_t> World::posted(Member& member, Post post, std::uint64_t context) {
  if (post == Post::again) return std::nullopt;
  member.open.emplace(context, true);
  return context;
}

std::optional<std::uint64_t> World::try_send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes) {
  const std::uint64_t context = next_context_++;
  return posted(ranks_[static_cast<std::size_t>(from)], at(from).post_send(to, slot, bytes, context), context);
}

std::optional<std::uint64_t> World::try_recv(Rank rank, Rank from, Slot slot, std::span<std::byte> into) {
  const std::uint64_t context = next_context_++;
  return posted(ranks_[static_cast<std::size_t>(rank)], at(rank).post_recv(from, slot, into, context), context);
}

std::uint64_t World::post(Rank rank, const std::function<Post(std::uint64_t)>& one, const char* what) {
  Member& member = ranks_[static_cast<std::size_t>(rank)];
  std::optional<std::uint64_t> context;
  const auto accepted = [&] {
    const std::uint64_t number = next_context_++;
    context = posted(member, one(number), number);
    return context.has_value();
  };
  reach(accepted, what);
  return context.value_or(0);
}

std::uint64_t World::send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes) {
  return post(
      from, [&](std::uint64_t context) { return at(from).post_send(to, slot, bytes, context); },
      "a send to be accepted");
}

std::uint64_t World::readable_send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes) {
  return post(
      from, [&](std::uint64_t context) { return at(from).post_readable_send(to, slot, bytes, context); },
      "a send that the peer may read to be accepted");
}

std::uint64_t World::recv(Rank rank, Rank from, Slot slot, std::span<std::byte> into) {
  return post(
      rank, [&](std::uint64_t context) { return at(rank).post_recv(from, slot, into, context); },
      "a receive to be accepted");
}

std::uint64_t World::cold_recv(Rank rank, Rank from, Slot slot, std::span<std::byte> into) {
  return post(
      rank, [&](std::uint64_t context) { return at(rank).post_cold_recv(from, slot, into, context); },
      "a cold receive to be accepted");
}

std::vector<std::uint64_t> World::send_ahead(Rank from, const std::vector<Rank>& to, Slot slot,
                                             std::span<const std::byte> bytes, std::size_t part) {
  std::vector<Ahead> ahead;
  for (const Rank peer : to) ahead.push_back({peer, slot});
  for (std::size_t begin = 0; begin < bytes.size(); begin += part)
    at(from).write_ahead(ahead, bytes, begin, std::min(begin + part, bytes.size()));
  std::vector<std::uint64_t> contexts;
  for (const Ahead& each : ahead) {
    const auto one = [&](std::uint64_t context) {
      return each.reached() ? at(from).post_written(each.peer, slot, bytes, context)
                            : at(from).post_send(each.peer, slot, bytes, context);
    };
    contexts.push_back(post(from, one, "what was written ahead to be accepted"));
  }
  return contexts;
}

void World::poll(Rank rank) {
  Member& member = ranks_[static_cast<std::size_t>(rank)];
  if (!member.endpoint) return;
  std::array<Completion, 16> completions;
  const std::size_t count = member.endpoint->poll(completions);
  ASSERT_LE(count, completions.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions[i];
    EXPECT_EQ(member.open.erase(completion.context), 1u)
        << "context " << completion.context << " was never accepted or completed twice";
    member.endings.insert_or_assign(completion.context, Ending{completion.outcome, completion.bytes});
  }
}

void World::poll() {
  for (Rank rank = 0; rank < size(); ++rank) poll(rank);
}

bool World::reach(const std::function<bool()>& condition, const char* what) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) {
      ADD_FAILURE() << "waited in vain for " << what;
      return false;
    }
    poll();
  }
  return true;
}

bool World::complete(const std::vector<std::uint64_t>& contexts) {
  std::size_t ended = 0;  // an ending stays: thousands are looked at once each, not at every turn
  return reach(
      [&] {
        while (ended < contexts.size() && ending(contexts[ended])) ++ended;
        return ended == contexts.size();
      },
      "completions");
}

std::optional<Ending> World::ending(std::uint64_t context) const {
  for (const Member& member : ranks_) {
    if (const auto found = member.endings.find(context); found != member.endings.end()) return found->second;
  }
  return std::nullopt;
}

void World::connect() {
  std::vector<std::uint64_t> contexts;
  for (Rank a = 0; a < size(); ++a) {
    for (Rank b = 0; b < size(); ++b) {
      if (a != b) contexts.push_back(recv(a, b, connect_slot, {}));
    }
  }
  for (Rank a = 0; a < size(); ++a) {
    for (Rank b = 0; b < size(); ++b) {
      if (a != b) contexts.push_back(send(a, b, connect_slot, {}));
    }
  }
  complete(contexts);
}

void World::kill(Rank rank) {
  Member& member = ranks_[static_cast<std::size_t>(rank)];
  member.endpoint.reset();
  member.open.clear();
}

void exchange(World& world) {
  const Bytes from = pattern(200'000, 1);
  Bytes into(200'000);
  const auto received = world.recv(1, 0, 1, into);
  ASSERT_TRUE(world.complete({received, world.send(0, 1, 1, from)}));
  EXPECT_TRUE(into == from);
}

}  // namespace fabring::conformance
