#include "transports/fabric/provider_choice.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "transports/fabric/error_text.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/fabric/libfabric.hpp"

namespace fabring::fabric {
namespace {

// A struct of a newer API than the running library's would be misread by it, one of an older API than our headers by
// us: ask for what both know.
std::uint32_t api_version() {
  return std::min<std::uint32_t>(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), libfabric().version());
}

std::string_view provider_of(const fi_info& info) {
  return info.fabric_attr && info.fabric_attr->prov_name ? info.fabric_attr->prov_name : "";
}

std::string_view fabric_of(const fi_info& info) {
  return info.fabric_attr && info.fabric_attr->name ? info.fabric_attr->name : "";
}

Kind kind_of(const fi_info& info) {
  const auto provider = provider_of(info);
  if (info.ep_attr->protocol == FI_PROTO_EFA && fabric_of(info) == "efa") return Kind::efa;
  // A layer above ("net;ofi_rxm") speaks another protocol, and would not be native.
  if (info.ep_attr->protocol == FI_PROTO_XNET && provider.find(';') == provider.npos) return Kind::native_tcp;
  return Kind::other;
}

constexpr std::string_view rxm_above = ";ofi_rxm";

bool is_over_rxm(const fi_info& info) { return provider_of(info).ends_with(rxm_above); }

bool is_rxm_over_tcp(const fi_info& info) { return is_over_rxm(info) && provider_of(info).starts_with("tcp"); }

// A provider that comes with libfabric has its version in one number: 117.0 is 1.17.0.
std::string version_text(std::uint32_t version) {
  const std::uint32_t major = FI_MAJOR(version), minor = FI_MINOR(version);
  if (major < 100) return std::to_string(major) + "." + std::to_string(minor);
  return std::to_string(major / 100) + "." + std::to_string(major % 100) + "." + std::to_string(minor);
}

struct Offers {
  InfoHandle list;
  int error = 0;
};

enum class Memory { host, devices };

Offers ask(const char* provider, const char* address, bool thread_safe, Memory memory = Memory::host,
           std::size_t receives = 0) {
  InfoHandle hints(libfabric().dupinfo(nullptr));
  if (!hints) return {nullptr, FI_ENOMEM};
  hints->caps = FI_MSG | FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = thread_safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  if (provider && std::string_view(provider) == "efa") {
    // Without this the receives of all peers stand in one list, which each message is looked up in.
    hints->caps |= FI_DIRECTED_RECV;
    // Asked for without FI_LOCAL_COMM it leaves libfabric's shm provider out, which each card would open and poll:
    // ranks of one host have our own shared memory, and where they have not they reach each other over the card.
    hints->caps |= FI_REMOTE_COMM;
  } else {
    // EFA takes who offers to register memory at his word, and keeps its own cache of registrations closed then.
    hints->domain_attr->mr_mode |= FI_MR_LOCAL;
  }
  if (memory == Memory::devices) {
    hints->caps |= FI_HMEM | FI_RMA;  // RMA: to read what was received, see DeviceRegistration::to_flush
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  if (receives > 0) hints->rx_attr->size = receives;
  if (provider) hints->fabric_attr->prov_name = ::strdup(provider);  // fi_freeinfo frees it
  fi_info* list = nullptr;
  const int rc = libfabric().getinfo(api_version(), address, nullptr, address ? FI_SOURCE | FI_NUMERICHOST : 0,
                                     hints.get(), &list);
  return {InfoHandle(list), -rc};
}

// Endpoints named otherwise (shm: by process) were never meant to be reached through an address that was agreed on;
// libfabric 1.17's shm ends with a segmentation fault in fi_enable.
bool has_address(const fi_info& info) {
  switch (info.addr_format) {
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
    case FI_ADDR_EFA:
      return true;
    default:
      return false;
  }
}

bool usable(const fi_info& info, const std::string& wanted) {
  const auto provider = provider_of(info);
  if (!has_address(info)) return false;
  if (wanted == "efa") return kind_of(info) == Kind::efa;
  if (wanted == "tcp") return kind_of(info) == Kind::native_tcp;
  if (wanted == "rxm") return is_rxm_over_tcp(info);
  return provider == wanted;
}

// By name: libfabric calls the domain of "rdmap16s27" "rdmap16s27-rdm". By place: as the kernel writes it.
bool is_on(const fi_info& info, const std::string& device) {
  const std::string_view domain = info.domain_attr && info.domain_attr->name ? info.domain_attr->name : "";
  if (domain == device || domain.starts_with(device + "-")) return true;
  if (!info.nic || !info.nic->bus_attr || info.nic->bus_attr->bus_type != FI_BUS_PCI) return false;
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
  return device == text;
}

const fi_info* first(const fi_info* list, const std::string& wanted) {
  for (; list; list = list->next)
    if (usable(*list, wanted)) return list;
  return nullptr;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string_view text_of(const char* text) { return text ? text : ""; }

// The same door of the same provider, only with more behind it.
bool is_same(const fi_info& one, const fi_info& other) {
  return provider_of(one) == provider_of(other) && fabric_of(one) == fabric_of(other) &&
         text_of(one.domain_attr->name) == text_of(other.domain_attr->name) &&
         one.ep_attr->protocol == other.ep_attr->protocol && one.addr_format == other.addr_format;
}

// Before libfabric 2.0 rxm has a list of fixed length (2048 unless more is asked for, at most 65536) for all that is
// posted to be received, and answers `again` beyond it, for ever where all of it is standing. Since then it grows.
Status make_room(ProviderChoice& choice, const std::string& address, int world_size) {
  const std::size_t wanted = receives_of_world(world_size);
  if (!is_over_rxm(*choice.info) || libfabric().version() >= FI_VERSION(2, 0)) return {};
  if (choice.info->rx_attr->size >= wanted) return {};
  const std::string provider(provider_of(*choice.info));
  const Offers offers = ask(provider.c_str(), address.c_str(), true, Memory::host, wanted);
  for (const fi_info* offer = offers.list.get(); offer; offer = offer->next) {
    if (!is_same(*offer, *choice.info) || offer->rx_attr->size < wanted) continue;
    choice.info.reset(libfabric().dupinfo(offer));
    if (choice.info) return {};
    return {ErrorCode::out_of_memory, "no memory for a description of the libfabric provider"};
  }
  return {ErrorCode::unavailable, provider + " has no room for the " + std::to_string(wanted) +
                                      " receives that a rank among " + std::to_string(world_size) +
                                      " keeps posted; set FABRING_PROVIDER=auto, or FABRING_TRANSPORT=tcp"};
}

// FI_PROVIDER is libfabric's own variable; it silently hides providers from every hint of ours.
std::string environment_note() {
  const char* filter = std::getenv("FI_PROVIDER");
  return filter && *filter ? "; FI_PROVIDER=" + std::string(filter) + " in the environment hides all others" : "";
}

Status nothing_found(const std::string& wanted, const std::string& address, const Offers& offers) {
  std::string text = wanted == "auto" ? "libfabric offers neither EFA nor its native TCP on address " + address
                                      : "libfabric provider \"" + wanted + "\" is not usable on address " + address;
  if (wanted == "auto" && first(offers.list.get(), "rxm"))
    text += "; its tcp;ofi_rxm is slower than FABRING_TRANSPORT=tcp, and taken with FABRING_PROVIDER=rxm only";
  const int error = offers.error;
  if (wanted == "shm") text += ": its endpoints are named by process, not by address";
  if (error && error != FI_ENODATA) text += " (" + error_text(error) + ")";
  text += "; here are: " + joined(provider_names()) + environment_note() +
          "; set FABRING_PROVIDER to auto, efa, tcp, rxm or one of these names, or FABRING_TRANSPORT=tcp";
  return {ErrorCode::unavailable, text};
}

std::string describe(const fi_info& info, const std::string& address, const std::string& aside) {
  const std::uint32_t version = info.fabric_attr->prov_version;
  return "provider " + std::string(provider_of(info)) + " " + std::to_string(FI_MAJOR(version)) + "." +
         std::to_string(FI_MINOR(version)) + ", protocol " + protocol_name(info) + " " +
         std::to_string(info.ep_attr->protocol_version) + ", libfabric " + library_version() + ", domain " +
         (info.domain_attr->name ? info.domain_attr->name : "?") + ", " + address + aside;
}

Result<ProviderChoice> chosen(const fi_info* info, const std::string& address, const std::string& aside) {
  ProviderChoice choice;
  choice.info.reset(libfabric().dupinfo(info));
  if (!choice.info) return Status(ErrorCode::out_of_memory, "no memory for a description of the libfabric provider");
  choice.kind = kind_of(*info);
  choice.reason = describe(*info, address, aside);
  return choice;
}

}  // namespace

std::string library_version() {
  return std::to_string(FI_MAJOR(libfabric().version())) + "." + std::to_string(FI_MINOR(libfabric().version()));
}

std::string protocol_name(const fi_info& info) {
  switch (info.ep_attr->protocol) {
    case FI_PROTO_XNET:
      return "XNET";
    case FI_PROTO_RXM:
      return "RXM";
    case FI_PROTO_RXM_TCP:
      return "RXM_TCP";
    case FI_PROTO_EFA:
      return "EFA";
    default:
      return "#" + std::to_string(info.ep_attr->protocol);
  }
}

std::vector<std::string> provider_names(bool with_versions) {
  std::vector<std::string> names;
  fi_info* list = nullptr;
  if (libfabric().getinfo(api_version(), nullptr, nullptr, 0, nullptr, &list) != 0) return names;
  const InfoHandle owner(list);
  for (const fi_info* info = list; info; info = info->next) {
    std::string name(provider_of(*info));
    if (with_versions) name += " " + version_text(info->fabric_attr->prov_version);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> present_providers() {
  std::vector<std::string> names;
  fi_info* list = nullptr;
  if (libfabric().getinfo(api_version(), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &list) != 0) return names;
  const InfoHandle owner(list);
  for (const fi_info* info = list; info; info = info->next) {
    const std::string_view name = provider_of(*info);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }
  return names;
}

const fi_info* nearest_efa(const fi_info* list, const std::vector<std::string>& near) {
  for (const std::string& device : near)
    for (const fi_info* info = list; info; info = info->next)
      if (usable(*info, "efa") && is_on(*info, device)) return info;
  return first(list, "efa");
}

std::vector<std::string> efa_cards(const fi_info* list) {
  std::vector<std::string> names;
  for (const fi_info* info = list; info; info = info->next) {
    if (!usable(*info, "efa") || !info->domain_attr->name) continue;
    std::string name = info->domain_attr->name;  // "rdmap16s27-rdm"
    if (const auto dash = name.rfind('-'); dash != name.npos) name.resize(dash);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

std::string efa_rdma_note(const fi_info& info, std::uint32_t api, const char* setting) {
  if (api >= FI_VERSION(1, 18) || (setting && *setting)) return {};
  if (!info.nic || !info.nic->device_attr || !info.nic->device_attr->device_id) return {};
  // The first has no RDMA at all, and libfabric ends a process that asks for it there.
  if (std::string_view(info.nic->device_attr->device_id) != "0xefa1") return {};
  return ", " + std::string(efa_rdma_off) + ": built with libfabric " + std::to_string(FI_MAJOR(api)) + "." +
         std::to_string(FI_MINOR(api)) +
         ", for which EFA's default on this card (0xefa1) is no RDMA and no GPU memory: build Fabring with libfabric "
         "1.18 "
         "or newer, or on p4d and p4de set FI_EFA_USE_DEVICE_RDMA=1";
}

LinkFacts link_facts_of(const fi_info& info) {
  LinkFacts facts;
  facts.provider = provider_of(info);
  if (info.nic && info.nic->link_attr) facts.bits_per_second = info.nic->link_attr->speed;
  return facts;
}

bool goes_over_tcp(const fi_info& info) {
  const std::string_view provider = provider_of(info), core = provider.substr(0, provider.find(';'));
  return core == "tcp" || core == "net" || core == "sockets";
}

std::vector<std::string> efa_devices(const std::string& wanted) {
  if (wanted != "auto" && wanted != "efa") return {};
  return efa_cards(ask("efa", nullptr, false).list.get());
}

const fi_info* offer_called(const fi_info* list, const std::string& wanted) {
  if (const fi_info* info = first(list, wanted)) return info;
  return first(list, wanted + std::string(rxm_above));
}

std::size_t receives_of_world(int world_size) {
  // For each peer the slots of its parcels, and of the pulses of several cards; and for what comes and goes.
  constexpr std::size_t standing_of_peer = 8 + 2, passing = 1024;
  return passing + standing_of_peer * static_cast<std::size_t>(std::max(world_size, 2) - 1);
}

Result<ProviderChoice> choose_provider(const std::string& wanted, const std::string& address,
                                       const std::vector<std::string>& near, int world_size) {
  in6_addr parsed;
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1 && inet_pton(AF_INET6, address.c_str(), &parsed) != 1)
    return Status(ErrorCode::invalid_argument,
                  "bind address \"" + address + "\" is not a numeric IPv4 or IPv6 address");

  std::string aside;
  if (wanted == "auto" || wanted == "efa") {
    // EFA has addresses of its own kind, so it is asked without ours. It promises less under FI_THREAD_SAFE.
    const Offers efa = ask("efa", nullptr, false);
    if (const fi_info* info = nearest_efa(efa.list.get(), near))
      return chosen(info, address, efa_rdma_note(*info, api_version(), std::getenv("FI_EFA_USE_DEVICE_RDMA")));
    if (wanted == "efa")
      return Status(ErrorCode::unavailable, "no EFA device found (libfabric " + library_version() +
                                                "); here are: " + joined(provider_names()) + environment_note() +
                                                "; set FABRING_PROVIDER=auto, or run on a host with an EFA adapter");
    aside = ", not EFA: no EFA device found";
  }

  const Offers offers = ask(nullptr, address.c_str(), true);
  if (wanted != "auto") {
    const fi_info* info = offer_called(offers.list.get(), wanted);
    if (!info) return nothing_found(wanted, address, offers);
    auto choice = chosen(info, address, "");
    if (choice) FABRING_TRY(make_room(*choice, address, world_size));
    return choice;
  }
  // rxm is never taken unasked: sockets of our own are faster, and are the next transport in line.
  if (const fi_info* info = first(offers.list.get(), "tcp")) return chosen(info, address, aside);
  return nothing_found(wanted, address, offers);
}

std::string provider_text(const ProviderChoice& choice) {
  if (choice.kind == Kind::efa) return "efa";
  return choice.kind == Kind::native_tcp ? "tcp" : std::string(provider_of(*choice.info));
}

void ask_for_devices(ProviderChoice& choice, const std::string& address) {
  const fi_info& info = *choice.info;
  const std::string provider(provider_of(info));
  const bool own_addresses = choice.kind == Kind::efa;
  const Offers offers =
      ask(provider.c_str(), own_addresses ? nullptr : address.c_str(), info.domain_attr->threading == FI_THREAD_SAFE,
          Memory::devices, is_over_rxm(info) ? info.rx_attr->size : 0);
  for (const fi_info* offer = offers.list.get(); offer; offer = offer->next) {
    if (!is_same(*offer, info) || !(offer->caps & FI_HMEM)) continue;
    choice.for_devices.reset(libfabric().dupinfo(offer));
    choice.device = {choice.for_devices != nullptr, provider + ": FI_HMEM"};
    return;
  }
  choice.device = {false, provider + " cannot take GPU memory: no FI_HMEM"};
}

}  // namespace fabring::fabric
