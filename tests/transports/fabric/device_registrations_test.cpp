// What is kept registered, and for how long; and what libfabric is asked for.

#include "transports/fabric/device_registrations.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <map>
#include <vector>

#include "transports/fabric/device_registrar.hpp"

namespace fabring::fabric {
namespace {

std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

// Allocations that exist in name only.
class Allocations final : public DeviceMemory {
 public:
  bool may_be_used() override { return true; }
  Result<DeviceAllocation> look_up(const std::byte* address) override {
    ++looks;
    for (const DeviceAllocation& one : alive)
      if (address >= one.base && address < one.base + one.bytes) return one;
    return Status(ErrorCode::device_error, "nothing is there");
  }
  Result<Descriptor> export_pages(const std::byte*, std::size_t) override {
    return Status(ErrorCode::unsupported, "no dmabuf of what does not exist");
  }
  bool sees_remote_writes(int) override { return sees; }
  std::shared_ptr<std::byte> block_to_try(std::size_t) override { return nullptr; }

  std::vector<DeviceAllocation> alive;
  bool sees = true;
  int looks = 0;
};

// A libfabric object that only counts.
struct MadeUpRegistration {
  fid_mr base{};
  int* open = nullptr;
};

int close_made_up(fid_t fid) {
  auto* const made = reinterpret_cast<MadeUpRegistration*>(fid);
  --*made->open;
  delete made;
  return 0;
}

void make_up(int& open, fid_mr** into) {
  static fi_ops ops = [] {
    fi_ops made{};
    made.size = sizeof made;
    made.close = close_made_up;
    return made;
  }();
  auto* const made = new MadeUpRegistration;
  made->base.fid.ops = &ops;
  made->open = &open;
  ++open;
  *into = &made->base;
}

class Registrations : public testing::Test {
 protected:
  DeviceRegistrations make(std::size_t limit = 8) {
    return DeviceRegistrations(
        memory,
        [this](const DeviceRange& range, bool to_flush) -> Result<RegistrationHandle> {
          if (!refusal.ok()) return refusal;
          asked.push_back(range);
          readable = to_flush;
          RegistrationHandle handle;
          make_up(open, handle.out());
          return handle;
        },
        limit);
  }
  void allocate(std::uintptr_t base, std::size_t bytes, std::uint64_t number) {
    memory->alive.push_back({0, at(base), bytes, number});
  }
  static Result<std::shared_ptr<const void>> admit(DeviceRegistrations& cache, std::uintptr_t address,
                                                   std::size_t bytes = 16) {
    const auto allocation = cache.look_up({at(address), bytes});
    if (!allocation) return allocation.error();
    return cache.admit(*allocation, {at(address), bytes});
  }
  static bool admitted(DeviceRegistrations& cache, std::uintptr_t address, std::size_t bytes = 16) {
    return admit(cache, address, bytes).has_value();
  }

  std::shared_ptr<Allocations> memory = std::make_shared<Allocations>();
  std::vector<DeviceRange> asked;
  Status refusal;
  bool readable = false;
  int open = 0;
};

TEST_F(Registrations, an_allocation_is_registered_whole_and_once) {
  allocate(0x10000, 0x8000, 1);
  DeviceRegistrations cache = make();
  EXPECT_TRUE(admitted(cache, 0x11000));
  EXPECT_TRUE(admitted(cache, 0x10000, 0x8000));
  EXPECT_TRUE(admitted(cache, 0x17ff0));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].base, at(0x10000));
  EXPECT_EQ(asked[0].bytes, 0x8000u);
  EXPECT_FALSE(readable);
  EXPECT_EQ(open, 1);
}

TEST_F(Registrations, memory_at_the_same_address_after_a_free_is_registered_anew) {
  allocate(0x10000, 0x8000, 1);
  DeviceRegistrations cache = make();
  EXPECT_TRUE(admitted(cache, 0x10000));
  memory->alive = {{0, at(0x10000), 0x8000, 2}};
  EXPECT_TRUE(admitted(cache, 0x10000));
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(open, 1) << "the registration of what was freed is kept";
  EXPECT_TRUE(admitted(cache, 0x10000));
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(Registrations, freed_memory_is_refused_although_it_is_registered) {
  allocate(0x10000, 0x8000, 1);
  DeviceRegistrations cache = make();
  EXPECT_TRUE(admitted(cache, 0x10000));
  memory->alive.clear();
  EXPECT_EQ(admit(cache, 0x10000, 16).error().code(), ErrorCode::device_error);
}

TEST_F(Registrations, a_miss_lets_go_of_all_that_was_freed) {
  for (std::uint64_t i = 1; i <= 4; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make();
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(admitted(cache, i * 0x10000));
  EXPECT_EQ(open, 3);
  memory->alive.erase(memory->alive.begin(), memory->alive.begin() + 2);
  EXPECT_TRUE(admitted(cache, 0x40000));
  EXPECT_EQ(open, 2);
}

TEST_F(Registrations, a_miss_asks_little_of_the_driver_and_some_let_go_of_all_that_was_freed) {
  constexpr std::uint64_t many = DeviceRegistrations::usual_limit - 1, least = DeviceRegistrations::looks_at_a_miss;
  for (std::uint64_t i = 1; i <= many; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make(DeviceRegistrations::usual_limit);
  for (std::uint64_t i = 1; i <= many; ++i) EXPECT_TRUE(admitted(cache, i * 0x10000));
  memory->alive.clear();
  memory->alive.push_back({0, at(0x8000000), 0x100000, 0});  // pieces that come and go: never kept
  for (std::uint64_t i = 0; i < many; i += least) {
    const int before = memory->looks;
    EXPECT_TRUE(admitted(cache, 0x8000000));
    EXPECT_LE(memory->looks - before, 16) << "of 63 that are kept";
  }
  EXPECT_EQ(open, 0);
}

TEST_F(Registrations, what_lay_where_something_else_is_goes_at_once) {
  constexpr std::uint64_t many = 2 * DeviceRegistrations::looks_at_a_miss;
  for (std::uint64_t i = 1; i <= many; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make(2 * many);
  for (std::uint64_t i = 1; i <= many; ++i) EXPECT_TRUE(admitted(cache, i * 0x10000));
  memory->alive.back().number = many + 1;
  EXPECT_TRUE(admitted(cache, many * 0x10000));
  EXPECT_EQ(open, static_cast<int>(many));
}

TEST_F(Registrations, no_more_are_kept_than_the_limit_and_the_one_used_longest_ago_goes) {
  for (std::uint64_t i = 1; i <= 4; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make(3);
  for (const std::uintptr_t i : {1, 2, 3, 1, 4}) EXPECT_TRUE(admitted(cache, i * 0x10000));
  EXPECT_EQ(open, 3);
  EXPECT_EQ(asked.size(), 4u);
  EXPECT_TRUE(admitted(cache, 0x10000));
  EXPECT_EQ(asked.size(), 4u) << "the one used lately is gone";
  EXPECT_TRUE(admitted(cache, 0x20000));
  EXPECT_EQ(asked.size(), 5u);
}

TEST_F(Registrations, what_an_operation_holds_stays_whatever_happens_to_the_cache) {
  for (std::uint64_t i = 1; i <= 3; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make(1);
  {
    const auto held = admit(cache, 0x10000, 16);
    ASSERT_TRUE(held.has_value());
    EXPECT_TRUE(admitted(cache, 0x20000));
    EXPECT_TRUE(admitted(cache, 0x30000));
    EXPECT_EQ(cache.kept(), 1u);
    EXPECT_EQ(open, 2);
    ASSERT_NE(cache.find({at(0x10100), 16}), nullptr);
    EXPECT_NE(cache.find({at(0x10100), 16})->handle.get(), nullptr);
  }
  EXPECT_EQ(open, 1);
}

TEST_F(Registrations, only_what_is_admitted_is_found) {
  allocate(0x10000, 0x1000, 1);
  DeviceRegistrations cache = make();
  EXPECT_EQ(cache.find({at(0x10000), 16}), nullptr);
  {
    const auto held = admit(cache, 0x10000, 16);
    EXPECT_NE(cache.find({at(0x10000), 16}), nullptr);
    EXPECT_EQ(cache.find({at(0x10ff8), 16}), nullptr) << "it ends in the middle";
    EXPECT_EQ(cache.find({at(0x20000), 16}), nullptr);
  }
  EXPECT_EQ(cache.find({at(0x10000), 16}), nullptr) << "the address may be the host's by now";
  EXPECT_EQ(open, 1);
}

TEST_F(Registrations, memory_whose_pieces_come_and_go_is_registered_for_one_operation_and_no_more_of_it_than_asked) {
  memory->alive.push_back({0, at(0x10000), 0x100000, 0});
  DeviceRegistrations cache = make();
  {
    const auto held = admit(cache, 0x12345, 0x1000);
    ASSERT_TRUE(held.has_value());
    EXPECT_EQ(open, 1);
  }
  EXPECT_EQ(open, 0);
  EXPECT_EQ(asked[0].base, at(0x12345));
  EXPECT_EQ(asked[0].bytes, 0x1000u);
  EXPECT_TRUE(admitted(cache, 0x12345));
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(Registrations, of_a_huge_allocation_only_the_pages_around_what_is_asked_for) {
  constexpr std::uintptr_t base = 0x7f0000000200;
  const DeviceAllocation huge{3, at(base), DeviceRegistrations::largest_whole + 1, 1};
  const DeviceRange middle = range_for(huge, {at(0x7f0000123456), 0x100000});
  EXPECT_EQ(middle.base, at(0x7f0000120000));
  EXPECT_EQ(middle.bytes, 0x110000u);
  EXPECT_EQ(middle.device, 3);
  const DeviceRange first = range_for(huge, {at(base), 1});
  EXPECT_EQ(first.base, at(base)) << "before the allocation";
  EXPECT_EQ(first.bytes, 0x10000u - 0x200);
  const std::uintptr_t end = base + DeviceRegistrations::largest_whole + 1;
  const DeviceRange last = range_for(huge, {at(end - 1), 1});
  EXPECT_EQ(last.base + last.bytes, at(end)) << "behind the allocation";
  EXPECT_TRUE(last.holds({at(end - 1), 1}));
}

TEST_F(Registrations, more_than_the_allocation_has_is_refused) {
  allocate(0x10000, 0x1000, 1);
  DeviceRegistrations cache = make();
  EXPECT_EQ(admit(cache, 0x10ff8, 16).error().code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(asked.empty());
}

TEST_F(Registrations, a_refusal_is_passed_on_and_nothing_is_kept) {
  allocate(0x10000, 0x1000, 1);
  refusal = Status(ErrorCode::unavailable, "no module");
  DeviceRegistrations cache = make();
  EXPECT_EQ(admit(cache, 0x10000, 16).error().message(), "no module");
  EXPECT_EQ(cache.kept(), 0u);
  refusal = {};
  EXPECT_TRUE(admitted(cache, 0x10000));
}

TEST_F(Registrations, a_gpu_that_does_not_see_writes_has_its_memory_readable_over_the_card) {
  allocate(0x10000, 0x1000, 1);
  memory->sees = false;
  DeviceRegistrations cache = make();
  const auto held = admit(cache, 0x10000, 16);
  EXPECT_TRUE(readable);
  EXPECT_TRUE(cache.find({at(0x10000), 16})->to_flush);
}

TEST_F(Registrations, clearing_gives_everything_back_under_those_who_hold_it) {
  for (std::uint64_t i = 1; i <= 2; ++i) allocate(i * 0x10000, 0x1000, i);
  DeviceRegistrations cache = make();
  const auto held = admit(cache, 0x10000, 16);
  EXPECT_TRUE(admitted(cache, 0x20000));
  cache.clear();
  EXPECT_EQ(open, 0);
  EXPECT_EQ(cache.find({at(0x10000), 16}), nullptr);
}

// ---- libfabric -----------------------------------------------------------------------------------------------------

struct Domain {
  fid_domain base{};
  fi_ops_mr calls{};
  int answer = 0;
  int open = 0;
  std::vector<fi_mr_attr> asked;
  std::vector<iovec> ranges;
  std::vector<std::uint64_t> flags;

  Domain() {
    calls.size = sizeof calls;
    calls.regattr = [](fid* fid, const fi_mr_attr* what, std::uint64_t how, fid_mr** into) {
      auto& self = *reinterpret_cast<Domain*>(fid);
      self.asked.push_back(*what);
      self.flags.push_back(how);
      if (how == 0) self.ranges.push_back(*what->mr_iov);
      if (self.answer == 0) make_up(self.open, into);
      return self.answer;
    };
    base.mr = &calls;
  }
};

TEST(DeviceRegistrar, asks_for_memory_of_this_gpu_by_its_address) {
  Domain domain;
  Allocations memory;
  const DeviceRange range{2, at(0x10000), 0x3000};
  auto handle = register_device_range(&domain.base, memory, range, false, 77);
  ASSERT_TRUE(handle.has_value());
  ASSERT_EQ(domain.ranges.size(), 1u);
  EXPECT_EQ(domain.ranges[0].iov_base, at(0x10000));
  EXPECT_EQ(domain.ranges[0].iov_len, 0x3000u);
  const fi_mr_attr& what = domain.asked.back();
  EXPECT_EQ(what.iface, FI_HMEM_CUDA);
  EXPECT_EQ(what.device.cuda, 2);
  EXPECT_EQ(what.access, std::uint64_t{FI_SEND | FI_RECV});
  EXPECT_EQ(what.requested_key, 77u);
  handle->reset();
  EXPECT_EQ(domain.open, 0);
}

TEST(DeviceRegistrar, what_must_be_flushed_may_be_read) {
  Domain domain;
  Allocations memory;
  ASSERT_TRUE(register_device_range(&domain.base, memory, {0, at(0x10000), 16}, true, 1).has_value());
  EXPECT_EQ(domain.asked.back().access, std::uint64_t{FI_SEND | FI_RECV | FI_READ | FI_REMOTE_READ});
}

TEST(DeviceRegistrar, says_what_was_tried_and_what_to_do) {
  Domain domain;
  domain.answer = -FI_EFAULT;
  Allocations memory;
  const auto handle = register_device_range(&domain.base, memory, {1, at(0x10000), 16}, false, 1);
  ASSERT_FALSE(handle.has_value());
  EXPECT_EQ(handle.error().code(), ErrorCode::unavailable);
  for (const char* part :
       {"cannot reach memory of GPU 1", "as a dmabuf: ", "by address: fi_mr_regattr failed: ", "nvidia_peermem"})
    EXPECT_NE(handle.error().message().find(part), std::string::npos) << handle.error().message();
}

TEST(DeviceRegistrar, tells_what_the_host_is_short_of_from_what_the_card_cannot_do) {
  Domain domain;
  Allocations memory;
  const auto answer_to = [&](int answer) {
    domain.answer = answer;
    return register_device_range(&domain.base, memory, {0, at(0x10000), 16}, false, 1).error().code();
  };
  for (const int passing : {FI_ENOMEM, FI_ENOSPC, FI_EAGAIN, FI_EBUSY, FI_EMFILE})
    EXPECT_EQ(answer_to(-passing), ErrorCode::out_of_memory) << passing;
  for (const int lasting : {FI_ENOSYS, FI_EOPNOTSUPP, FI_EINVAL, FI_EFAULT})
    EXPECT_EQ(answer_to(-lasting), ErrorCode::unavailable) << lasting;
}

}  // namespace
}  // namespace fabring::fabric
