#include "transports/fabric/libfabric.hpp"

#include <dlfcn.h>

#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/named_thread.hpp"
#include "transports/fabric/fabric_transport.hpp"

namespace fabring::fabric {
namespace {

/// The program's handlers of signals that libinfinipath and libpsm2 take over while they are loaded: theirs end the
/// process by exit(1), in the midst of other constructors.
class SignalHandlers {
 public:
  SignalHandlers() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGINT, SIGTERM})
      (void)::sigaction(signal, nullptr, &before_[signal]);
  }
  void put_back() const {
    for (const auto& [signal, handler] : before_) (void)::sigaction(signal, &handler, nullptr);
  }

 private:
  std::map<int, struct sigaction> before_;
};

Status unusable(const std::string& why) {
  return {ErrorCode::unavailable, "libfabric cannot be loaded: " + why + " or name its folder in LD_LIBRARY_PATH"};
}

// The versions are those that a linker would have bound to: with them, structs are as the headers have them.
template <class Function>
Status find(void* library, const char* name, const char* version, Function& function) {
  function = reinterpret_cast<Function>(::dlvsym(library, name, version));
  if (function != nullptr) return {};
  const std::string error = ::dlerror();
  if (::dlsym(library, name) == nullptr)
    return unusable(error + ": it is no libfabric; install one (Debian: libfabric1)");
  return unusable(error + ": it is older than the one Fabring was built with; install one that is as new");
}

// Where the loader finds it, or else where it was when Fabring was built. Constructors bind the thread that runs them
// to processors: it is one of its own.
Result<Libfabric> load() {
  Result<Libfabric> loaded{Libfabric{}};
  prepare_for_fabric();  // before any constructor and any thread of its
  const SignalHandlers handlers;
  std::promise<void> done;
  auto loader = start_thread("fabring-load", [&] {
    loaded = open_libfabric(FABRING_LIBFABRIC_NAME);
    if (!loaded) {
      if (auto second = open_libfabric(FABRING_LIBFABRIC_FILE)) loaded = std::move(second);
    }
    done.set_value();
  });
  if (!loader) return Status{ErrorCode::unavailable, "libfabric cannot be loaded: " + loader.error().message()};
  // Loading takes tenths of a second, and the foreign handlers come at its beginning: not only at the end.
  const auto over = done.get_future();
  do handlers.put_back();
  while (over.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  loader->join();
  handlers.put_back();
  return loaded;
}

const Result<Libfabric>& loaded() {
  static const Result<Libfabric> once = load();
  return once;
}

}  // namespace

Result<Libfabric> open_libfabric(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unusable(std::string(::dlerror()) + "; install it (Debian: libfabric1)");
  Libfabric calls;
  FABRING_TRY(find(library, "fi_getinfo", FABRING_VERSION_OF_fi_getinfo, calls.getinfo));
  FABRING_TRY(find(library, "fi_dupinfo", FABRING_VERSION_OF_fi_dupinfo, calls.dupinfo));
  FABRING_TRY(find(library, "fi_freeinfo", FABRING_VERSION_OF_fi_freeinfo, calls.freeinfo));
  FABRING_TRY(find(library, "fi_fabric", FABRING_VERSION_OF_fi_fabric, calls.fabric));
  FABRING_TRY(find(library, "fi_strerror", FABRING_VERSION_OF_fi_strerror, calls.strerror));
  FABRING_TRY(find(library, "fi_version", FABRING_VERSION_OF_fi_version, calls.version));
  return calls;
}

Status load_libfabric() { return loaded().error(); }

const Libfabric& libfabric() {
  FABRING_CHECK(loaded().has_value());
  return *loaded();
}

}  // namespace fabring::fabric
