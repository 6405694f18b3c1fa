// A libfabric provider for tests, loaded by libfabric itself (FI_PROVIDER_PATH): libfabric's own over TCP, under the
// name of one whose cards move bytes themselves, which states a link of STATED_BITS_PER_SECOND. So real jobs show what
// ranks make of cards that no test machine has.

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// What "net" was until libfabric 1.18.
const char* inner_name() { return fi_version() < FI_VERSION(1, 18) ? "net" : "tcp"; }

fid_nic* make_card();

// libfabric copies a card by itself too, operations and all, in memory from calloc: so made here.
int close_card(fid* at) {
  auto* const card = reinterpret_cast<fid_nic*>(at);
  std::free(card->link_attr);
  std::free(card);
  return 0;
}

int control_card(fid*, int command, void* into) {
  if (command != FI_DUP) return -FI_ENOSYS;
  *static_cast<fid_nic**>(into) = make_card();
  return 0;
}

fid_nic* make_card() {
  static fi_ops ops = [] {
    fi_ops made{};
    made.size = sizeof made;
    made.close = close_card;
    made.control = control_card;
    return made;
  }();
  auto* const card = static_cast<fid_nic*>(std::calloc(1, sizeof(fid_nic)));
  auto* const link = static_cast<fi_link_attr*>(std::calloc(1, sizeof(fi_link_attr)));
  if (!card || !link) std::abort();
  card->fid.fclass = FI_CLASS_NIC;
  card->fid.ops = &ops;
  card->link_attr = link;
  const char* const stated = std::getenv("STATED_BITS_PER_SECOND");
  link->speed = stated ? std::strtoull(stated, nullptr, 10) : 0;
  link->state = FI_LINK_UP;
  return card;
}

int offer(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
          fi_info** into) {
  fi_info* const asked = fi_dupinfo(hints);
  if (!asked) return -FI_ENOMEM;
  if (!asked->fabric_attr) asked->fabric_attr = static_cast<fi_fabric_attr*>(std::calloc(1, sizeof(fi_fabric_attr)));
  std::free(asked->fabric_attr->prov_name);
  asked->fabric_attr->prov_name = ::strdup(inner_name());
  const int rc = fi_getinfo(version, node, service, flags, asked, into);
  fi_freeinfo(asked);
  if (rc != 0) return rc;
  for (fi_info* info = *into; info; info = info->next) {
    std::free(info->fabric_attr->prov_name);  // libfabric puts ours there
    info->fabric_attr->prov_name = nullptr;
    info->nic = make_card();
  }
  return 0;
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** into, void* context) {
  fi_fabric_attr inner = *attr;
  char name[8];
  std::strcpy(name, inner_name());
  inner.prov_name = name;
  return fi_fabric(&inner, into, context);
}

fi_provider provider{};

}  // namespace

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  // As libfabric numbers its own: a later one would be too new for the provider inside.
  provider.version = FI_VERSION(FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION, FI_REVISION_VERSION * 10);
  provider.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
  provider.name = "verbs";
  provider.getinfo = offer;
  provider.fabric = open_fabric;
  provider.cleanup = [] {};
  return &provider;
}
