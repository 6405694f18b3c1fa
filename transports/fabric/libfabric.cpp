#include "transports/fabric/libfabric.hpp"

#include <dlfcn.h>

#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <string>

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

struct Loaded {
  Libfabric calls;
  std::string error;  // none: it is
};

// The versions are those that a linker would have bound to: with them, structs are as the headers have them.
template <class Function>
bool find(void* library, const char* name, const char* version, Function& function, std::string& error) {
  void* const found = *version != '\0' ? ::dlvsym(library, name, version) : ::dlsym(library, name);
  if (found == nullptr) error = ::dlerror();
  function = reinterpret_cast<Function>(found);
  return found != nullptr;
}

bool load_from(const char* file, Loaded& loaded) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.error = ::dlerror();
    return false;
  }
  Libfabric& calls = loaded.calls;
  return find(library, "fi_getinfo", FABRING_VERSION_OF_fi_getinfo, calls.getinfo, loaded.error) &&
         find(library, "fi_dupinfo", FABRING_VERSION_OF_fi_dupinfo, calls.dupinfo, loaded.error) &&
         find(library, "fi_freeinfo", FABRING_VERSION_OF_fi_freeinfo, calls.freeinfo, loaded.error) &&
         find(library, "fi_fabric", FABRING_VERSION_OF_fi_fabric, calls.fabric, loaded.error) &&
         find(library, "fi_strerror", FABRING_VERSION_OF_fi_strerror, calls.strerror, loaded.error) &&
         find(library, "fi_version", FABRING_VERSION_OF_fi_version, calls.version, loaded.error);
}

// Where the loader finds it, or else where it was when Fabring was built. Constructors bind the thread that runs them
// to processors: it is one of its own.
Loaded load() {
  Loaded loaded;
  prepare_for_fabric();  // before any constructor and any thread of its
  const SignalHandlers handlers;
  std::promise<void> done;
  auto loader = start_thread("fabring-load", [&] {
    std::string first_error;
    bool found = false;
    for (const char* file : {FABRING_LIBFABRIC_NAME, FABRING_LIBFABRIC_FILE}) {
      if ((found = load_from(file, loaded))) break;
      if (first_error.empty()) first_error = loaded.error;
    }
    loaded.error = found ? "" : first_error;
    done.set_value();
  });
  if (!loader) {
    loaded.error = loader.error().message();
    return loaded;
  }
  // Loading takes tenths of a second, and the foreign handlers come at its beginning: not only at the end.
  const auto over = done.get_future();
  do handlers.put_back();
  while (over.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  loader->join();
  handlers.put_back();
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

Status load_libfabric() {
  const Loaded& result = loaded();
  if (result.error.empty()) return {};
  return {ErrorCode::unavailable, "libfabric cannot be loaded: " + result.error +
                                      "; install it (Debian: libfabric1) or name its folder in LD_LIBRARY_PATH"};
}

const Libfabric& libfabric() {
  const Loaded& result = loaded();
  FABRING_CHECK(result.error.empty());
  return result.calls;
}

}  // namespace fabring::fabric
