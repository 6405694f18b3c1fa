// Registrations of the made-up provider, and the rule that every post names one.

#include <set>

#include "tests/transports/fabric/made_up_parts.hpp"

namespace fabring::made_up {
namespace {

std::set<Registration*> registrations;

int close_registration(fid_t fid) {
  const Lock lock(mutex);
  auto* const registration = of<Registration>(fid);
  if (registration->device) --control.registered;
  registrations.erase(registration);
  delete registration;
  return 0;
}

int add(const std::byte* first, std::size_t bytes, std::uint64_t access, bool device, fid_mr** into) {
  static fi_ops ops = plain(close_registration);
  static std::uint64_t keys = 100;
  const Lock lock(mutex);
  auto* const made = new Registration;
  introduce(made->base.fid, FI_CLASS_MR, ops);
  made->base.mem_desc = made;
  made->base.key = ++keys;
  made->first = first;
  made->bytes = bytes;
  made->access = access;
  made->device = device;
  registrations.insert(made);
  if (device) ++control.registered, ++control.registrations;
  *into = &made->base;
  return 0;
}

int add_memory(fid*, const void* at, std::size_t bytes, std::uint64_t access, std::uint64_t, std::uint64_t,
               std::uint64_t, fid_mr** into, void*) {
  if (control.answer_to_locking != 0) return control.answer_to_locking;
  if (see(at) != at) broken("memory of the GPU is registered as the host's");
  return add(static_cast<const std::byte*>(at), bytes, access, false, into);
}

int add_any_memory(fid*, const fi_mr_attr* what, std::uint64_t flags, fid_mr** into) {
  if (control.answer_to_registering != 0) return control.answer_to_registering;
  if (flags != 0 || what->iov_count != 1 || what->iface != FI_HMEM_CUDA || what->device.cuda > 1) return -FI_EINVAL;
  const auto* const first = static_cast<const std::byte*>(what->mr_iov->iov_base);
  if (see(first) == first) broken("memory of the host is registered as the GPU's");
  return add(first, what->mr_iov->iov_len, what->access, true, into);
}

}  // namespace

Registration* check(const void* at, std::size_t bytes, void* descriptor, std::uint64_t access) {
  if (bytes == 0 || control.native) return nullptr;
  auto* const registration = static_cast<Registration*>(descriptor);
  if (!registrations.contains(registration)) broken("a post names memory without a living registration");
  const auto* const first = static_cast<const std::byte*>(at);
  if (first < registration->first || first + bytes > registration->first + registration->bytes)
    broken("a post names memory beyond its registration");
  if ((registration->access & access) != access) broken("memory is not registered for this");
  return registration;
}

Registration* registration_of(std::uint64_t key) {
  for (Registration* one : registrations)
    if (one->base.key == key) return one;
  return nullptr;
}

fi_ops_mr* memory_calls() {
  static fi_ops_mr calls = table<fi_ops_mr>([](fi_ops_mr& to) {
    to.reg = add_memory;
    to.regattr = add_any_memory;
  });
  return &calls;
}

}  // namespace fabring::made_up
