// Which provider is chosen, and what is said when none fits.

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/base/net/net.hpp"
#include "runtime/transfer/wire.hpp"
#include "tests/transports/fabric/fabric_world.hpp"
#include "transports/fabric/provider_choice.hpp"

namespace fabring {
namespace {

Result<std::string> probe(const std::string& provider, const std::string& address = "127.0.0.1") {
  return make_fabric_transport()->probe(fabric_options(0, 2, provider, address));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// What a rank keeps posted is said in another layer, for each peer: parcels, and landings where there are two ranks.
TEST(FabricSelection, ThereIsRoomForWhatARankKeepsPosted) {
  for (int ranks = 2; ranks < 10'000; ranks += ranks < 300 ? 1 : 97) {
    const std::size_t parcels = parcels_over_network(ranks, std::size_t{1} << 40).slots;
    const std::size_t posted = (parcels + (ranks == 2 ? most_landings : 0)) * static_cast<std::size_t>(ranks - 1);
    EXPECT_GE(fabric::receives_of_world(ranks), posted) << ranks;
  }
}

TEST(FabricSelection, AutoTakesNativeTcpByItsProtocolAndSaysWhyNotEfa) {
  const auto answer = probe("auto");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "protocol XNET")) << *answer;
  EXPECT_FALSE(contains(*answer, "ofi_rxm")) << *answer;
  EXPECT_TRUE(contains(*answer, "not EFA: no EFA device found")) << *answer;
  EXPECT_TRUE(contains(*answer, "libfabric ")) << *answer;
  EXPECT_TRUE(contains(*answer, "domain lo")) << *answer;
}

// Its constructors (those of libinfinipath, in Debian's) install handlers and bind the thread that loads it.
TEST(FabricSelection, LibfabricIsLoadedWhenItIsNeededAndLeavesNoTrace) {
  if (void* const there = ::dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    ::dlclose(there);
    GTEST_SKIP() << "a test before this one has loaded it; ctest runs each in a process of its own";
  }
  std::map<int, struct sigaction> handlers;
  struct sigaction own {};
  own.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGINT, &own, nullptr), 0);
  for (const int fatal : {SIGINT, SIGSEGV, SIGABRT, SIGTERM}) ::sigaction(fatal, nullptr, &handlers[fatal]);
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  ASSERT_TRUE(probe("tcp"));
  EXPECT_NE(::dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD), nullptr);
  for (const auto& [fatal, handler] : handlers) {
    struct sigaction now {};
    ASSERT_EQ(::sigaction(fatal, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, handler.sa_handler) << strsignal(fatal);
  }
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

// Offers as libfabric lists those of a host with several EFA cards.
struct Offers {
  explicit Offers(std::initializer_list<std::pair<const char*, int>> cards) {
    for (const auto& [domain, bus] : cards) {
      fi_info* info = fabric::libfabric().dupinfo(nullptr);
      info->addr_format = FI_ADDR_EFA;
      info->ep_attr->protocol = FI_PROTO_EFA;
      info->fabric_attr->name = ::strdup("efa");
      info->fabric_attr->prov_name = ::strdup("efa");
      info->domain_attr->name = ::strdup(domain);
      if (bus > 0) {
        info->nic = static_cast<fid_nic*>(std::calloc(1, sizeof(fid_nic)));
        info->nic->bus_attr = &buses[count];
        buses[count].bus_type = FI_BUS_PCI;
        buses[count].attr.pci.bus_id = static_cast<std::uint8_t>(bus);
      }
      infos[count] = info;
      if (count > 0) infos[count - 1]->next = info;
      ++count;
    }
  }
  ~Offers() {
    for (std::size_t i = 0; i < count; ++i) {
      std::free(infos[i]->nic);
      infos[i]->nic = nullptr;
      infos[i]->next = nullptr;
      fabric::libfabric().freeinfo(infos[i]);
    }
  }
  std::string nearest(const std::vector<std::string>& near) const {
    const fi_info* info = fabric::nearest_efa(infos[0], near);
    return info ? info->domain_attr->name : "";
  }
  fi_info* infos[8] = {};
  fi_bus_attr buses[8] = {};
  std::size_t count = 0;
};

TEST(FabricSelection, OfSeveralEfaCardsTheOneNearTheRankIsTaken) {
  const Offers offers{{"rdmap16s27-rdm", 0x10}, {"rdmap16s2-rdm", 0x12}, {"rdmap32s27-rdm", 0x20}, {"odd", 0x30}};
  EXPECT_EQ(offers.nearest({}), "rdmap16s27-rdm");
  EXPECT_EQ(offers.nearest({"rdmap32s27"}), "rdmap32s27-rdm");
  EXPECT_EQ(offers.nearest({"rdmap16s2"}), "rdmap16s2-rdm");  // not the longer name that begins so
  EXPECT_EQ(offers.nearest({"0000:30:00.0"}), "odd");         // by place
  EXPECT_EQ(offers.nearest({"nosuch", "rdmap32s27"}), "rdmap32s27-rdm");
  EXPECT_EQ(offers.nearest({"nosuch"}), "rdmap16s27-rdm");
  EXPECT_EQ(Offers{}.nearest({"rdmap16s27"}), "");
}

TEST(FabricSelection, WhatACardSaysOfItsLinkIsTaken) {
  const Offers offers{{"rdmap16s27-rdm", 0x10}, {"odd", 0}};
  LinkFacts facts = fabric::link_facts_of(*offers.infos[0]);
  EXPECT_EQ(facts.provider, "efa");
  EXPECT_EQ(facts.bits_per_second, 0u) << "a card without a link";
  fi_link_attr link{};
  link.speed = 200'000'000'000;
  offers.infos[0]->nic->link_attr = &link;
  EXPECT_EQ(fabric::link_facts_of(*offers.infos[0]).bits_per_second, 200'000'000'000u);
  offers.infos[0]->nic->link_attr = nullptr;
  EXPECT_EQ(fabric::link_facts_of(*offers.infos[1]).bits_per_second, 0u) << "nothing is said of a card";
}

TEST(FabricSelection, AnEfaCardWhoseRdmaAnOldApiTurnsOffIsTold) {
  const Offers offers{{"rdmap16s27-rdm", 0x10}, {"odd", 0}};
  char device_id[] = "0xefa1";
  fi_device_attr device{};
  device.device_id = device_id;
  offers.infos[0]->nic->device_attr = &device;
  const std::uint32_t old = FI_VERSION(1, 17), fresh = FI_VERSION(1, 18);
  const std::string note = fabric::efa_rdma_note(*offers.infos[0], old, nullptr);
  EXPECT_TRUE(contains(note, std::string(efa_rdma_off)) && contains(note, "FI_EFA_USE_DEVICE_RDMA=1")) << note;
  EXPECT_TRUE(contains(note, "built with libfabric 1.17")) << note;
  EXPECT_EQ(fabric::efa_rdma_note(*offers.infos[0], fresh, nullptr), "");
  EXPECT_EQ(fabric::efa_rdma_note(*offers.infos[0], old, "0"), "") << "somebody has decided";
  for (const char* other : {"0xefa0", "0xefa2"}) {  // one that has none, one for which it is on
    std::strcpy(device_id, other);
    EXPECT_EQ(fabric::efa_rdma_note(*offers.infos[0], old, nullptr), "") << other;
  }
  offers.infos[0]->nic->device_attr = nullptr;
  EXPECT_EQ(fabric::efa_rdma_note(*offers.infos[0], old, nullptr), "");
  EXPECT_EQ(fabric::efa_rdma_note(*offers.infos[1], old, nullptr), "");
}

TEST(FabricSelection, AnEndpointSaysWhoseItIs) {
  const auto endpoint = open_fabric(fabric_options(0, 2));
  const LinkFacts facts = endpoint->link_facts();
  EXPECT_FALSE(facts.provider.empty());
  EXPECT_TRUE(contains(endpoint->describe(), facts.provider)) << endpoint->describe();
  if (const std::string control = net::system_congestion_control(); !control.empty()) {
    EXPECT_TRUE(contains(endpoint->describe(), ", " + control + " as the system has it")) << endpoint->describe();
  }
  EXPECT_EQ(facts.bits_per_second, 0u) << "libfabric has no card for sockets";
}

TEST(FabricSelection, ProvidersAreListedWithTheirVersions) {
  const auto providers = fabric_providers();
  ASSERT_FALSE(providers.empty());
  for (const std::string& provider : providers) {
    const std::size_t blank = provider.find(' ');
    ASSERT_NE(blank, std::string::npos) << provider;
    EXPECT_EQ(provider.find_first_not_of("0123456789.", blank + 1), std::string::npos) << provider;
  }
}

TEST(FabricSelection, TcpMeansTheNativeOneWhateverItsNameIs) {
  const auto answer = probe("tcp");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "protocol XNET")) << *answer;
}

TEST(FabricSelection, RxmIsTakenWhenItIsAskedFor) {
  const auto answer = probe("rxm");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "provider tcp;ofi_rxm")) << *answer;
}

TEST(FabricSelection, AProviderCanBeNamedExactly) {
  const auto answer = probe("tcp;ofi_rxm");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "provider tcp;ofi_rxm")) << *answer;
}

TEST(FabricSelection, OfAProviderThatIsThereUnderRxmOnlyTheNameWillDo) {
  fi_info* list = nullptr;
  for (const char* name : {"other;ofi_rxm", "cards;ofi_rxm", "both;ofi_rxm", "both"}) {
    fi_info* const info = fabric::libfabric().dupinfo(nullptr);
    info->addr_format = FI_SOCKADDR_IN;
    info->fabric_attr->prov_name = ::strdup(name);
    info->next = list;
    list = info;
  }
  const fabric::InfoHandle owner(list);
  const auto called = [&](const char* wanted) {
    const fi_info* const info = fabric::offer_called(list, wanted);
    return std::string(info ? info->fabric_attr->prov_name : "none");
  };
  EXPECT_EQ(called("cards"), "cards;ofi_rxm");
  EXPECT_EQ(called("cards;ofi_rxm"), "cards;ofi_rxm");
  EXPECT_EQ(called("both"), "both");
  EXPECT_EQ(called("card"), "none");
  EXPECT_EQ(called("tcp"), "none") << "that is the native one";
}

// Before libfabric 2.0 it answers `again` to a receive that its list has no room for: 2048, unless more is asked for.
TEST(FabricSelection, RxmHasRoomForWhatStandsForEachPeer) {
  constexpr int ranks = 400;
  auto endpoint = open_fabric(fabric_options(0, ranks, "rxm"));
  ASSERT_NE(endpoint, nullptr);
  const std::string address = open_fabric(fabric_options(1, 2, "rxm"))->address();
  std::vector<std::byte> into(1);
  for (Rank peer = 1; peer < ranks; ++peer) {
    ASSERT_TRUE(endpoint->add_peer(peer, address).ok());
    for (Slot slot = 0; slot < 8; ++slot)
      ASSERT_EQ(endpoint->post_recv(peer, slot, into, 1), Post::accepted) << "peer " << peer << ", slot " << slot;
  }
  endpoint->close();
}

TEST(FabricSelection, AWorldThatRxmHasNoRoomForIsRefused) {
  const auto answer = make_fabric_transport()->probe(fabric_options(0, 10'000, "rxm"));
  if (fabric::libfabric().version() >= FI_VERSION(2, 0)) {
    EXPECT_TRUE(answer.has_value()) << "its list grows";
    return;
  }
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(contains(answer.error().message(), "receives that a rank among 10000 keeps posted"))
      << answer.error().message();
}

TEST(FabricSelection, Ipv6IsBoundWhenTheAddressIsOne) {
  const auto answer = probe("auto", "::1");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "::1")) << *answer;
}

TEST(FabricSelection, AProviderThatDoesNotExistIsAnErrorThatListsWhatIsHere) {
  const auto answer = probe("warp_drive");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(contains(answer.error().message(), "\"warp_drive\"")) << answer.error().message();
  EXPECT_TRUE(contains(answer.error().message(), "tcp;ofi_rxm")) << answer.error().message();
  EXPECT_TRUE(contains(answer.error().message(), "FABRING_PROVIDER")) << answer.error().message();
}

TEST(FabricSelection, AMistypedProviderIsNoNameAndOneWithoutACardIs) {
  for (const char* name : {"auto", "efa", "tcp", "rxm", "psm3", "tcp;ofi_rxm", "verbs;ofi_rxm"})
    EXPECT_TRUE(check_fabric_provider(name).ok()) << check_fabric_provider(name).message();
  for (const char* name : {"efaa", "EFA", "tcp,efa", "^tcp", "tcp;", "tcp;rxm", "warp_drive"}) {
    const Status status = check_fabric_provider(name);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << name;
    EXPECT_TRUE(contains(status.message(), std::string("FABRING_PROVIDER='") + name + "'")) << status.message();
    EXPECT_TRUE(contains(status.message(), "there are: auto, efa, tcp, rxm, ")) << status.message();
  }
  EXPECT_TRUE(contains(check_fabric_provider("efaa").message(), "did you mean 'efa'?"));
  EXPECT_TRUE(contains(check_fabric_provider("verb;ofi_rxm").message(), "'verb'; did you mean 'verbs'?"));
}

TEST(FabricSelection, EfaWithoutADeviceIsAnErrorThatSaysSo) {
  const auto answer = probe("efa");
  if (answer) GTEST_SKIP() << "this host has an EFA device";
  EXPECT_EQ(answer.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(contains(answer.error().message(), "no EFA device found")) << answer.error().message();
}

TEST(FabricSelection, AnAddressThatIsNoneIsRefused) {
  const auto answer = probe("auto", "localhost");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(contains(answer.error().message(), "\"localhost\"")) << answer.error().message();
}

TEST(FabricSelection, AnAddressOfAnotherHostCannotBeOpened) {
  const auto endpoint = make_fabric_transport()->open(fabric_options(0, 2, "tcp", "192.0.2.77"));
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().code(), ErrorCode::unavailable) << endpoint.error().to_string();
  EXPECT_TRUE(contains(endpoint.error().message(), "192.0.2.77")) << endpoint.error().message();
}

TEST(FabricSelection, AVariableOfLibfabricThatHidesEverythingIsNamed) {
  // libfabric reads it once per process: so this runs in a new one, not in a fork of this.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("FI_PROVIDER", "shm", 1);
        const auto answer = probe("auto");
        if (answer) _exit(1);
        std::fputs(answer.error().message().c_str(), stderr);
        _exit(0);
      },
      testing::ExitedWithCode(0), "FI_PROVIDER=shm");
}

// "net" is the native one of libfabric 1.17; what is left is rxm, which is slower than sockets of our own.
TEST(FabricSelection, AutoTakesNoRxmWhereTheNativeTcpIsHidden) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("FI_PROVIDER", "^net", 1);
        const auto answer = probe("auto");
        std::fputs(answer ? answer->c_str() : answer.error().message().c_str(), stderr);
        if (answer) _exit(contains(*answer, "protocol XNET") ? 0 : 1);  // from 1.18 on it is called tcp
        const bool rxm = probe("rxm").has_value();
        _exit(rxm && contains(answer.error().message(), "FABRING_PROVIDER=rxm") ? 0 : 2);
      },
      testing::ExitedWithCode(0), "FI_PROVIDER=.net in the environment|protocol XNET");
}

TEST(FabricAddress, BytesThatAreNoneAreRefused) {
  auto endpoint = open_fabric(fabric_options(0, 3));
  auto other = open_fabric(fabric_options(1, 3));
  const std::string good = other->address();
  std::string long_name = good;
  long_name[12] = static_cast<char>(0xff);
  std::string no_port = good;
  no_port[15] = no_port[16] = '\0';
  std::string wrong_family = good;
  wrong_family[13] = 10;  // AF_INET6 in the space of an IPv4 address
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string(256, '\0'), good.substr(0, good.size() - 1), good + "x", long_name,
        std::string("tcp 127.0.0.1:1234"), no_port, wrong_family}) {
    const Status status = endpoint->add_peer(1, bad);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << bad.size() << " bytes";
  }
  EXPECT_EQ(endpoint->add_peer(0, good).code(), ErrorCode::invalid_argument) << "itself";
  EXPECT_EQ(endpoint->add_peer(3, good).code(), ErrorCode::invalid_argument) << "outside the world";
  EXPECT_EQ(endpoint->add_peer(-1, good).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(endpoint->add_peer(1, good).ok());
  EXPECT_EQ(endpoint->add_peer(1, good).code(), ErrorCode::invalid_argument) << "twice";
}

TEST(FabricAddress, OfAnotherProtocolIsAMismatchThatNamesTheRank) {
  auto endpoint = open_fabric(fabric_options(0, 2, "tcp"));
  auto other = open_fabric(fabric_options(1, 2, "rxm"));
  const Status status = endpoint->add_peer(1, other->address());
  EXPECT_EQ(status.code(), ErrorCode::mismatch);
  EXPECT_TRUE(contains(status.message(), "rank 1")) << status.message();
  EXPECT_TRUE(contains(status.message(), "FABRING_PROVIDER")) << status.message();
}

}  // namespace
}  // namespace fabring
