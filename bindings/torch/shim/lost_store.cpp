#include "lost_store.hpp"

#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <string_view>

#include "failure.hpp"

namespace fabring_torch {
namespace {

c10d::Store& without_prefix(c10d::Store& store) {
  auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(&store);
  return prefixed == nullptr ? store : *prefixed->getUnderlyingNonPrefixStore();
}

bool is_of_torchruns_agent() {
  const char* const said = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return said != nullptr && std::string_view(said) == "True";
}

}  // namespace

std::string failed_store_text(c10d::Store& store, const std::exception& thrown) {
  const std::string why = text_of(thrown);
  const auto* const tcp = dynamic_cast<const c10d::TCPStore*>(&without_prefix(store));
  if (tcp == nullptr) return c10::str("the store of the process group failed: ", why);
  const std::string place = c10::str("the store at ", tcp->getHost(), ":", tcp->getPort());
  if (is_of_torchruns_agent())
    return c10::str(place, ", which torchrun has, is gone: look at torchrun's output on that host (", why, ")");
  return c10::str(place,
                  ", which rank 0's process has unless the program made it elsewhere, is gone: look at rank 0's ",
                  "output (", why, ")");
}

}  // namespace fabring_torch
