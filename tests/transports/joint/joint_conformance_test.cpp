// Shared memory and tcp as one endpoint, in the conformance suite: with neighbours and strangers in one world.

#include "tests/support/closed_files.hpp"
#include "tests/support/few_files.hpp"
#include "tests/transports/conformance/world.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/joint/joint_endpoint.hpp"
#include "transports/shm/shm_endpoint.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::conformance {
namespace {

class Joint final : public Transport {
 public:
  /// Ranks share memory where the difference of their numbers is odd, or where it is even.
  explicit Joint(bool odd) : odd_(odd) {}
  std::string_view name() const override { return "joint"; }
  Result<std::string> probe(const EndpointOptions&) override { return std::string(); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto local = shm::ShmEndpoint::open(options);
    if (!local) return local.error();
    auto network = tcp_->open(options);
    if (!network) return network.error();
    std::vector<bool> is_local;
    for (Rank rank = 0; rank < options.world_size; ++rank)
      is_local.push_back(((rank ^ options.self) & 1) == (odd_ ? 1 : 0));
    return make_joint_endpoint(std::move(*local), std::move(*network), std::move(is_local));
  }

 private:
  const bool odd_;
  std::unique_ptr<Transport> tcp_ = make_tcp_transport();
};

// A network whose card reaches memory of GPUs.
class Reaching final : public ForwardingEndpoint {
 public:
  using ForwardingEndpoint::ForwardingEndpoint;
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte>) override {
    EXPECT_EQ(std::vector<Rank>(peers.begin(), peers.end()), std::vector<Rank>{2});
    return std::shared_ptr<const void>(std::make_shared<int>(0));
  }
  std::string device_path() const override { return "directly"; }
};

/// Of rank 0.
struct Parts {
  Result<std::unique_ptr<shm::ShmEndpoint>> local;
  Result<std::unique_ptr<Endpoint>> network;
};

Parts parts_of(int world_size) {
  EndpointOptions options;
  options.world_size = world_size;
  options.bind_address = "127.0.0.1";
  options.job_nonce = 7;
  return {shm::ShmEndpoint::open(options), make_tcp_transport()->open(options)};
}

// Without its descriptor it would work, and wait for ever where it ends.
TEST(JointOfFiles, TheSoftLimitOnOpenFilesIsRaisedWhereItIsInTheWay) {
  Parts parts = parts_of(2);
  ASSERT_TRUE(parts.local && parts.network);
  const tests::NoMoreFilesForNow none;
  auto joint = make_joint_endpoint(std::move(*parts.local), std::move(*parts.network), {true, false});
  ASSERT_TRUE(joint) << joint.error().message();
  joint->reset();
}

TEST(JointOfGpus, MemoryIsAdmittedForPeersOfTheNetworkAndNotForNeighbours) {
  Parts parts = parts_of(3);
  ASSERT_TRUE(parts.local && parts.network);
  const auto joint = make_joint_endpoint(std::move(*parts.local), std::make_unique<Reaching>(std::move(*parts.network)),
                                         {true, true, false});
  ASSERT_TRUE(joint) << joint.error().message();
  const std::byte memory[16] = {};
  const Rank far[] = {2}, near[] = {1}, both[] = {1, 2};
  EXPECT_TRUE((*joint)->admit_device_memory(far, memory).has_value());
  EXPECT_FALSE((*joint)->admit_device_memory(near, memory).has_value());
  const auto refused = (*joint)->admit_device_memory(both, memory);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(),
            "ranks of this host are among them: this transport moves memory of the host only");
  EXPECT_EQ((*joint)->device_path(), "to ranks of this host through pinned memory of the host; to others directly");
}

void close_and_end() {
  Parts parts = parts_of(2);
  ASSERT_TRUE(parts.local && parts.network);
  auto joint = make_joint_endpoint(std::move(*parts.local), std::move(*parts.network), {true, false});
  ASSERT_TRUE(joint) << joint.error().message();
  tests::close_all_files();
  joint->reset();
}

TEST(JointOfFiles, ThatTheProgramHasClosedKeepNothingFromEnding) {
  EXPECT_EXIT((close_and_end(), ::_exit(HasFatalFailure() ? 1 : 0)), testing::ExitedWithCode(0), "");
}

std::vector<Fabric> fabrics() {
  Fabric neighbours, strangers;  // what ranks 0 and 1 are to each other; rank 2 is the other to rank 0
  neighbours.name = "Neighbours";
  neighbours.transport = [] { return std::make_unique<Joint>(true); };
  strangers.name = "Strangers";
  strangers.transport = [] { return std::make_unique<Joint>(false); };
  return {neighbours, strangers, faulty(neighbours, 31)};
}

INSTANTIATE_TEST_SUITE_P(Joint, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
