// The inproc transport in the conformance suite: as it is, and behind faults.

#include "tests/transports/conformance/world.hpp"
#include "transports/inproc/inproc_transport.hpp"

namespace fabring::conformance {
namespace {

// An inproc fabric knows its size; the suite says it when the first rank opens.
class AnySize final : public Transport {
 public:
  std::string_view name() const override { return "inproc"; }
  Result<std::string> probe(const EndpointOptions& options) override { return sized(options).probe(options); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return sized(options).open(options);
  }

 private:
  Transport& sized(const EndpointOptions& options) {
    if (!inner_) inner_ = make_inproc_transport(make_inproc_fabric(options.world_size));
    return *inner_;
  }
  std::unique_ptr<Transport> inner_;
};

std::vector<Fabric> fabrics() {
  Fabric plain;
  plain.name = "Plain";
  plain.transport = [] { return std::make_unique<AnySize>(); };
  Fabric process;  // as engines find each other
  process.name = "OfTheProcess";
  process.transport = make_process_transport;
  return {plain, process, faulty(plain, 23)};
}

Result<std::unique_ptr<Endpoint>> open_in(std::uint64_t job, Rank self) {
  EndpointOptions options;
  options.self = self;
  options.world_size = 2;
  options.job_nonce = job;
  return make_process_transport()->open(options);
}

TEST(ProcessTransport, JobsOfAProcessDoNotMeetAndNeitherDoOtherProcesses) {
  const auto one = open_in(1, 0), same = open_in(1, 1), other = open_in(2, 1);
  ASSERT_TRUE(one && same && other);
  EXPECT_TRUE((*one)->add_peer(1, (*same)->address()));
  std::string elsewhere = (*same)->address();
  elsewhere.back() = elsewhere.back() == '0' ? '1' : '0';
  for (const std::string& address : {(*other)->address(), elsewhere, std::string()}) {
    const Status refused = open_in(1, 0).value()->add_peer(1, address);
    EXPECT_EQ(refused.code(), ErrorCode::invalid_argument) << address;
    EXPECT_NE(refused.message().find("rank 1 is not in this process"), std::string::npos) << refused.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Inproc, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
