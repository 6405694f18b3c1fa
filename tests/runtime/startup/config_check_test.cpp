// What an engine refuses of a Config that a program filled in itself, and what it makes of timeouts without an end.

#include <gmock/gmock.h>

#include "fabring/communicator.hpp"
#include "runtime/base/net/net.hpp"
#include "runtime/startup/config_check.hpp"
#include "runtime/startup/congestion_check.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Config alone() {
  Config config;
  config.rank = 0;
  config.world_size = 1;
  return config;
}

struct Bad {
  const char* setting;
  void (*spoil)(Config&);
  const char* allowed;
};

TEST(ConfigByHand, is_refused_as_the_environment_is) {
  const Bad all[] = {
      {"FABRING_RAILS=", [](Config& config) { config.rails = -1; }, "1 to 16"},
      {"FABRING_SOCKETS_PER_PEER=", [](Config& config) { config.sockets_per_peer = -3; }, "1 to 16"},
      {"FABRING_SOCKETS_PER_PEER=", [](Config& config) { config.sockets_per_peer = 17; }, "1 to 16"},
      {"FABRING_DEPTH=", [](Config& config) { config.depth = -1; }, "1 to 1024"},
      {"FABRING_SEGMENT_BYTES=", [](Config& config) { config.segment_bytes = 1; }, "less than 64 B"},
      {"FABRING_SEGMENT_BYTES=", [](Config& config) { config.segment_bytes = std::size_t{8} << 30; },
       "more than 1 GiB"},
      {"FABRING_SCRATCH_BYTES=", [](Config& config) { config.scratch_bytes = 100; }, "less than 4 KiB"},
      {"FABRING_LOG=", [](Config& config) { config.log = "loud"; }, "none, error, warning, info, debug"},
      {"FABRING_GPU_PATH=", [](Config& config) { config.gpu_path = "short"; }, "auto, staged"},
      {"FABRING_MACHINE=", [](Config& config) { config.machine = "efa-40"; }, "did you mean 'efa-400'?"},
      {"FABRING_WIRE_TYPE=", [](Config& config) { config.wire_type = DataType::float64; }, "off, bfloat16"},
      {"FABRING_WIRE_TYPE=", [](Config& config) { config.wire_type = static_cast<DataType>(16); }, "off, bfloat16"},
      {"FABRING_TIMEOUT=", [](Config& config) { config.timeout = 0ms; }, "1ms to 3650d"},
      {"FABRING_SILENCE_TIMEOUT=", [](Config& config) { config.silence_timeout = 1ms; }, "less than 2 s"},
      {"FABRING_LEAVE_TIMEOUT=", [](Config& config) { config.leave_timeout = -1ms; }, "not a duration"},
      {"FABRING_JOB_ID=", [](Config& config) { config.job_id = "a\nb"; }, "control character"},
  };
  for (const Bad& bad : all) {
    Config config = alone();
    bad.spoil(config);
    const auto engine = Engine::create(config);
    ASSERT_FALSE(engine.has_value()) << bad.setting;
    EXPECT_EQ(engine.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(engine.error().message(), StartsWith(bad.setting));
    EXPECT_THAT(engine.error().message(), HasSubstr(bad.allowed));
  }
}

TEST(ConfigByHand, may_say_all_that_the_environment_may) {
  Config config = alone();
  config.local_rank = 3;
  config.rails = 16;
  config.transport = "shm,tcp";
  config.algorithm = "allreduce:64K-4M:ring";
  config.machine = "efa-400";
  config.wire_type = DataType::float16;
  config.depth = 1024;
  config.segment_bytes = 64;
  config.scratch_bytes = (std::size_t{1} << 40) + 1;
  config.silence_timeout = 2s;
  config.timeout = 1ms;
  const auto engine = Engine::create(config);
  EXPECT_TRUE(engine.has_value()) << engine.error().message();
}

TEST(ConfigByHand, may_name_what_this_host_lacks) {
  for (const char* provider : {"auto", "efa", "tcp", "rxm", "psm3", "verbs;ofi_rxm"}) {
    Config config = alone();
    config.provider = provider;
    config.congestion_control = "westwood";
    const auto engine = Engine::create(config);
    EXPECT_TRUE(engine.has_value()) << provider << ": " << engine.error().message();
  }
}

TEST(ConfigByHand, may_not_name_a_congestion_control_that_nobody_has) {
  Config config = alone();
  config.congestion_control = "cubix";
  const auto engine = Engine::create(config);
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(engine.error().message(), StartsWith("FABRING_CONGESTION_CONTROL='cubix': "));
  EXPECT_THAT(engine.error().message(), HasSubstr("did you mean 'cubic'?; there are: auto, "));
}

// Of two ranks, and nobody waits for the other.
TEST(ConfigByHand, may_not_leave_a_rank_without_an_interface) {
  const auto addresses = interface_addresses();
  if (!addresses || addresses->empty() || !addresses->front().loopback) GTEST_SKIP() << "no loopback address here";
  Config config = alone();
  config.rank = 1;
  config.world_size = 2;
  config.master_addr = "127.0.0.1";
  config.rendezvous_timeout = 1s;
  for (const char* filter : {"nosuch0", "^*", "203.0.113.0/24"}) {
    config.interface = filter;
    const auto engine = Engine::create(config);
    ASSERT_FALSE(engine.has_value());
    EXPECT_EQ(engine.error().code(), ErrorCode::unavailable) << engine.error().message();
    EXPECT_THAT(engine.error().message(), HasSubstr(filter));
  }
  for (const char* filter : {"", "lo", "^nosuch0", "127.0.0.0/8,nosuch0"}) {
    config.interface = filter;
    EXPECT_TRUE(check_interface_here(config).ok()) << filter;
  }
}

// Where sockets come first they are what was asked for; elsewhere they are one of several.
TEST(Networks, are_not_passed_over_because_of_a_congestion_control) {
  const char* missing = nullptr;
  for (const char* name : {"westwood", "yeah", "illinois", "hybla", "scalable"})
    if (net::try_congestion_control(name).code() == ErrorCode::unsupported) missing = name;
  if (missing == nullptr) GTEST_SKIP() << "this kernel has them all";
  EndpointOptions options;
  options.world_size = 2;
  options.bind_address = "127.0.0.1";
  options.config.congestion_control = missing;
  EXPECT_TRUE(check_congestion_name(options.config).ok());
  Identity own;
  const Status refused = UsableTransports("tcp,inproc").probe_networks(options, own);
  EXPECT_EQ(refused.code(), ErrorCode::unsupported);
  EXPECT_THAT(refused.message(), StartsWith("FABRING_CONGESTION_CONTROL: "));
  EXPECT_THAT(refused.message(), HasSubstr(std::string("modprobe tcp_") + missing));
  Identity other;
  EXPECT_TRUE(UsableTransports("inproc,tcp").probe_networks(options, other).ok());
  EXPECT_THAT(other.usable, testing::ElementsAre("inproc"));
  EXPECT_THAT(other.unusable, HasSubstr(missing));
}

TEST(ConfigByHand, may_have_timeouts_without_an_end) {
  Config config = alone();
  constexpr auto never = std::chrono::milliseconds::max();
  config.rendezvous_timeout = config.timeout = config.silence_timeout = config.leave_timeout = never;
  const auto engine = Engine::create(config);
  ASSERT_TRUE(engine.has_value()) << engine.error().message();
  const Config& taken = (*engine)->config();
  for (const auto limit : {taken.rendezvous_timeout, taken.timeout, taken.silence_timeout, taken.leave_timeout})
    EXPECT_EQ(limit, std::chrono::hours(24 * 3650));
}

}  // namespace
}  // namespace fabring
