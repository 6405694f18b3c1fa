#pragma once
// Which of libfabric's offers to open: decided by protocol and capability, because the names lie. What Debian's 1.17
// calls "tcp" is only there with the slower rxm layer on top, the native one is called "net"; from 1.18 on "tcp" is
// the native one. Also says, for people, what was passed over and why.

#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "transports/endpoint.hpp"
#include "transports/fabric/device_verdict.hpp"
#include "transports/fabric/handles.hpp"

namespace fabring::fabric {

enum class Kind {
  efa,         ///< Amazon's adapter, through the "efa" fabric (not "efa-direct", which has no tags)
  native_tcp,  ///< reliable datagrams straight on sockets: FI_PROTO_XNET
  other,       ///< rxm over tcp, or any provider that was named exactly
};

struct ProviderChoice {
  InfoHandle info;  ///< exactly one entry
  Kind kind = Kind::other;
  std::string reason;           ///< "provider net, protocol XNET, ..., not EFA: no EFA device found"
  InfoHandle for_devices = {};  ///< the same with FI_HMEM; null: not asked for, or not offered
  DeviceVerdict device = {false, "this host has no GPU that this process may use"};
};

/// `wanted`: auto, efa, tcp (native), rxm, or a libfabric provider name. `address`: the numeric address to bind to.
/// `near`: as EndpointOptions::near_devices; of several EFA cards the first of these is taken.
/// Errors: invalid_argument for an address that is none; unavailable, with what is here, if nothing fits, or has room
/// for what a rank of a world of `world_size` keeps posted.
Result<ProviderChoice> choose_provider(const std::string& wanted, const std::string& address,
                                       const std::vector<std::string>& near = {}, int world_size = 2);

/// The first offer that `wanted` names: of libfabric's names also that of a provider which is there under rxm only
/// ("verbs" for "verbs;ofi_rxm"). Null: none.
const fi_info* offer_called(const fi_info* list, const std::string& wanted);

/// So many receives a rank may have posted at once: those that stand for each peer, and as many as there should be room
/// for beside them.
std::size_t receives_of_world(int world_size);

/// "efa"; "tcp" for the native one, whatever libfabric calls it; else the provider's name.
std::string provider_text(const ProviderChoice& choice);

/// Asks whether the provider that was chosen would take memory of GPUs too; what was chosen stays as it is.
void ask_for_devices(ProviderChoice& choice, const std::string& address);

/// Of the EFA offers in a list the one on the first of `near` that any is on, else the first; null if there is none.
const fi_info* nearest_efa(const fi_info* list, const std::vector<std::string>& near);

/// The EFA cards in a list of offers, by name, in its order; and those that a rank with this FABRING_PROVIDER would
/// use.
std::vector<std::string> efa_cards(const fi_info* list);
std::vector<std::string> efa_devices(const std::string& wanted);

/// What EFA does not do for a program that was built with libfabric older than 1.18: cards of the first generations
/// (c5n to p4d) neither read memory of peers nor take that of GPUs, unless `setting` (FI_EFA_USE_DEVICE_RDMA, null:
/// unset) says so. Empty: nothing is missing. `api` is the version that libfabric is asked by. Pure.
std::string efa_rdma_note(const fi_info& info, std::uint32_t api, const char* setting);

/// What an offer says of its card.
LinkFacts link_facts_of(const fi_info& info);

/// Do its bytes go by sockets of TCP? They have the congestion control of the system: libfabric offers no choice.
bool goes_over_tcp(const fi_info& info);

/// The provider names that fi_getinfo knows here, each once; with their versions ("tcp 1.22.0") if wanted.
std::vector<std::string> provider_names(bool with_versions = false);

/// The providers that libfabric has, layers ("ofi_rxm") too, whether they could be used on this host or not. Of those
/// that need a card most are missing where there is none.
std::vector<std::string> present_providers();

/// "1.17"
std::string library_version();

/// "XNET", "RXM", "EFA", ...
std::string protocol_name(const fi_info& info);

}  // namespace fabring::fabric
