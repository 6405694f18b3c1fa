#include "transports/fabric/signal_handlers.hpp"

#include <dlfcn.h>

#include <csignal>
#include <string_view>

namespace fabring {

void drop_foreign_signal_handlers() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGINT, SIGTERM}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
    Dl_info where{};
    const auto* handler = reinterpret_cast<const void*>(now.sa_handler);
    if (::dladdr(handler, &where) == 0 || where.dli_fname == nullptr) continue;
    if (std::string_view(where.dli_fname).find("infinipath") == std::string_view::npos) continue;
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
  }
}

}  // namespace fabring
