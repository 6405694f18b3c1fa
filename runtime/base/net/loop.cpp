#include <exception>
#include <limits>

#include "runtime/base/net/asio.hpp"

namespace fabring::net {

Loop::Loop() : impl_(std::make_unique<Impl>()) {
  try {
    impl_->io.emplace(1);  // a hint: one thread runs it; post() from others stays safe
    impl_->work.emplace(impl_->io->get_executor());
    // Makes the reactor now, so that nothing made from this loop can throw later.
    asio::posix::stream_descriptor descriptor(*impl_->io);
    asio::steady_timer timer(*impl_->io);
  } catch (const std::exception& error) {
    impl_->work.reset();
    impl_->io.reset();
    impl_->status = Status(ErrorCode::unavailable, std::string("cannot make an event loop: ") + error.what() +
                                                       "; raise the limit on open files (ulimit -n)");
  }
}

Loop::~Loop() = default;

Status Loop::status() const { return impl_->status; }

std::size_t Loop::poll() { return impl_->io ? impl_->io->poll() : 0; }

std::size_t Loop::run_for(std::chrono::nanoseconds limit) {
  if (!impl_->io) return 0;
  std::size_t ran = impl_->io->poll();
  if (ran == 0 && !impl_->woken.exchange(false)) {
    ran = impl_->io->run_one_for(bounded(limit));
    ran += impl_->io->poll();
  }
  // A wake() up to here has done its work: the caller is about to look at its state.
  impl_->woken.store(false);
  return ran;
}

void Loop::wake() {
  // The flag serves a run_for() that has not begun yet (its handler may be eaten by poll() before), the handler one
  // that already sleeps.
  if (!impl_->woken.exchange(true)) post([] {});
}

void Loop::post(std::function<void()> handler) {
  if (impl_->io) asio::post(*impl_->io, std::move(handler));
}

void Loop::allow_silence(std::chrono::milliseconds silence) {
  constexpr std::chrono::milliseconds least = std::chrono::minutes(15), most(std::numeric_limits<int>::max() / 2);
  impl_->user_timeout_ms = static_cast<int>(2 * std::clamp(silence, least, most).count());
}

namespace {

struct Timer : std::enable_shared_from_this<Timer> {
  Timer(asio::io_context& io, std::function<void()> run) : clock(io), handler(std::move(run)) {}
  void start(std::chrono::nanoseconds delay) {
    clock.expires_after(bounded(delay));
    clock.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (error || !self) return;
      const auto run = std::move(self->handler);
      self->handler = nullptr;
      run();
    });
  }
  asio::steady_timer clock;
  std::function<void()> handler;
};

}  // namespace

std::shared_ptr<void> Loop::after(std::chrono::nanoseconds delay, std::function<void()> handler) {
  if (!impl_->io) return nullptr;
  auto timer = std::make_shared<Timer>(*impl_->io, std::move(handler));
  timer->start(delay);
  return timer;
}

}  // namespace fabring::net
