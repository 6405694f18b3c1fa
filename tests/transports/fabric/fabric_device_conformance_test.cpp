// The conformance suite with every message in memory of a fake GPU, over the made-up provider: before a GPU that sees
// what the card writes, and before one that does not.

#include <algorithm>
#include <map>

#include "tests/transports/conformance/world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/forwarding_endpoint.hpp"

namespace fabring::conformance {
namespace {

// Takes messages of the host's memory to blocks of the GPU, and back when they have come.
class OnGpu final : public ForwardingEndpoint {
 public:
  using ForwardingEndpoint::ForwardingEndpoint;

  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    Block block = block_for(peer, from.size());
    std::copy(from.begin(), from.end(), made_up::gpu()->see(block.bytes.data()));
    return keep(inner().post_send(peer, slot, block.bytes, context), std::move(block), context);
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return post_send(peer, slot, from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    Block block = block_for(peer, into.size());
    block.into = into;
    return keep(inner().post_recv(peer, slot, block.bytes, context), std::move(block), context);
  }
  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    Block block = block_for(peer, into.size());
    block.into = into;
    return keep(inner().post_cold_recv(peer, slot, block.bytes, context), std::move(block), context);
  }
  std::size_t poll(std::span<Completion> out) override {
    const std::size_t count = inner().poll(out);
    for (const Completion& completion : out.first(count)) {
      const Block& block = blocks_.at(completion.context);
      if (completion.outcome == Outcome::done && !block.into.empty())
        std::copy_n(made_up::gpu()->see(block.bytes.data()), completion.bytes, block.into.begin());
      let_go(block);
      blocks_.erase(completion.context);
    }
    return count;
  }
  void close() override {
    closed_ = true;
    inner().close();
  }

 private:
  struct Block {
    std::span<std::byte> bytes;
    std::span<std::byte> into;
    std::shared_ptr<const void> admitted;
  };
  Block block_for(Rank peer, std::size_t bytes) {
    Block block;
    block.bytes = {place(bytes), bytes};
    auto admitted = inner().admit_device_memory({&peer, 1}, block.bytes);
    EXPECT_TRUE(admitted.has_value() || closed_) << admitted.error().message();
    if (admitted) block.admitted = std::move(*admitted);
    return block;
  }
  // Small messages lie side by side, and are never given out again.
  std::byte* place(std::size_t bytes) {
    if (bytes > slab_bytes / 16) return *made_up::gpu()->allocate(0, bytes);
    if (slab_ == nullptr || taken_ + bytes > slab_bytes) {
      slab_ = *made_up::gpu()->allocate(0, slab_bytes);
      taken_ = 0;
    }
    taken_ += bytes;
    return slab_ + taken_ - bytes;
  }
  Post keep(Post post, Block block, std::uint64_t context) {
    if (post == Post::again) {
      let_go(block);
    } else {
      blocks_[context] = std::move(block);
    }
    return post;
  }
  void let_go(const Block& block) {
    if (block.bytes.size() > slab_bytes / 16) made_up::gpu()->free(0, block.bytes.data());
  }

  static constexpr std::size_t slab_bytes = std::size_t{1} << 20;
  std::byte* slab_ = nullptr;
  std::size_t taken_ = 0;
  bool closed_ = false;
  std::map<std::uint64_t, Block> blocks_;
};

class WithGpu final : public Transport {
 public:
  explicit WithGpu(bool sees_writes) {
    made_up::begin();
    if (sees_writes) return;
    made_up::gpu()->does_not_see_remote_writes();
    made_up::control().late_writes = true;
  }
  std::string_view name() const override { return inner_->name(); }
  Result<std::string> probe(const EndpointOptions& options) override { return inner_->probe(options); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    EndpointOptions with = options;
    with.device_memory = made_up::device_memory();
    auto opened = inner_->open(with);
    if (!opened) return opened;
    return std::unique_ptr<Endpoint>(std::make_unique<OnGpu>(std::move(*opened)));
  }

 private:
  std::unique_ptr<Transport> inner_ = make_fabric_transport();
};

Fabric made_up_fabric(const std::string& name, bool sees_writes) {
  Fabric fabric;
  fabric.name = name;
  fabric.transport = [sees_writes] { return std::make_unique<WithGpu>(sees_writes); };
  fabric.config.provider = "made_up";
  fabric.notices_death = false;
  return fabric;
}

INSTANTIATE_TEST_SUITE_P(FabricDevice, Conformance,
                         testing::Values(made_up_fabric("Gpu", true), made_up_fabric("OlderGpu", false),
                                         faulty(made_up_fabric("OlderGpu", false), 29)),
                         fabric_name);

}  // namespace
}  // namespace fabring::conformance
