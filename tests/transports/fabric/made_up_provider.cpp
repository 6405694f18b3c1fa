// What the made-up provider offers, and its fabric and domain.

#include "tests/transports/fabric/made_up_provider.hpp"

#include <arpa/inet.h>
#include <rdma/providers/fi_prov.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/transports/fabric/made_up_parts.hpp"

namespace fabring::made_up {

[[noreturn]] void broken(const char* rule) {
  std::fprintf(stderr, "made-up provider: %s\n", rule);
  std::abort();
}

namespace {

int open_domain(fid_fabric*, fi_info* info, fid_domain** into, void*) {
  if ((info->caps & FI_HMEM) && !control.opens_for_devices) return -FI_ENODEV;
  static fi_ops ops = plain(close_ours<fid_domain>);
  static fi_ops_domain calls = table<fi_ops_domain>([](fi_ops_domain& to) {
    to.av_open = open_addresses;
    to.cq_open = open_queue;
    to.endpoint = open_door;
  });
  auto* const made = new fid_domain{};
  introduce(made->fid, FI_CLASS_DOMAIN, ops);
  made->ops = &calls;
  made->mr = memory_calls();
  *into = made;
  return 0;
}

int open_fabric(fi_fabric_attr*, fid_fabric** into, void*) {
  static fi_ops ops = plain(close_ours<fid_fabric>);
  static fi_ops_fabric calls = table<fi_ops_fabric>([](fi_ops_fabric& to) {
    to.domain = open_domain;
    to.eq_open = open_events;
  });
  auto* const made = new fid_fabric{};
  introduce(made->fid, FI_CLASS_FABRIC, ops);
  made->ops = &calls;
  *into = made;
  return 0;
}

int offer(std::uint32_t, const char* node, const char*, std::uint64_t, const fi_info* hints, fi_info** into) {
  if (!control.asked) {
    control.asked = true;
    const auto value = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
    control.fork_safe = value("FI_EFA_FORK_SAFE");
    control.huge_pages = value("FI_EFA_USE_HUGE_PAGE");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (node && inet_pton(AF_INET, node, &address.sin_addr) != 1) return -FI_ENODATA;
  const std::uint64_t wanted = hints ? hints->caps : 0;
  if ((wanted & FI_HMEM) && !control.offers_devices) return -FI_ENODATA;
  fi_info* const info = fi_allocinfo();
  if (!info) return -FI_ENOMEM;
  info->caps = wanted ? wanted : FI_MSG | FI_TAGGED;
  info->addr_format = FI_SOCKADDR_IN;
  info->src_addrlen = sizeof address;
  info->src_addr = std::malloc(sizeof address);
  std::memcpy(info->src_addr, &address, sizeof address);
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->protocol = 0x4d55;
  info->ep_attr->protocol_version = 1;
  info->ep_attr->max_msg_size = SIZE_MAX;
  info->tx_attr->size = info->rx_attr->size = 256;
  info->domain_attr->threading = FI_THREAD_SAFE;
  info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  if (wanted & FI_HMEM) info->domain_attr->mr_mode |= FI_MR_HMEM;
  if (control.native) {
    info->ep_attr->protocol = FI_PROTO_XNET;
    info->tx_attr->inject_size = 256;
    info->domain_attr->mr_mode = 0;
  }
  if (control.efa) info->ep_attr->protocol = FI_PROTO_EFA;
  if (control.manual) info->domain_attr->threading = FI_THREAD_DOMAIN;
  info->domain_attr->name = ::strdup("made_up0");
  info->fabric_attr->name = ::strdup(control.efa ? "efa" : "made up");
  *into = info;
  return 0;
}

fi_provider provider{};

}  // namespace
}  // namespace fabring::made_up

extern "C" __attribute__((visibility("default"))) fabring::made_up::Control* made_up_control() {
  return &fabring::made_up::control;
}

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  using namespace fabring::made_up;
  provider.version = FI_VERSION(1, 0);
  provider.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
  provider.name = "made_up";
  provider.getinfo = offer;
  provider.fabric = open_fabric;
  provider.cleanup = [] {};
  return &provider;
}
