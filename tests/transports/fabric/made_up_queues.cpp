// Queues and address vectors of the made-up provider.

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/transports/fabric/made_up_parts.hpp"

namespace fabring::made_up {
namespace {

ssize_t read_queue(fid_cq* cq, void* into, std::size_t count) {
  const Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  queue.last_sentence = "what was read before is gone";
  std::erase_if(control.late_errors, [&](const Posted& post) {
    if (post.queue == &queue) queue.failed(post, control.late_error);
    return post.queue == &queue;
  });
  if (control.answer_of_queue != 0) return control.answer_of_queue;
  if (control.answer_of_queue_errors != 0 || !queue.errors.empty()) return -FI_EAVAIL;
  if (queue.entries.empty()) return -FI_EAGAIN;
  count = std::min(count, queue.entries.size());
  std::copy_n(queue.entries.begin(), count, static_cast<fi_cq_msg_entry*>(into));
  queue.entries.erase(queue.entries.begin(), queue.entries.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<ssize_t>(count);
}

ssize_t sleep_in_queue(fid_cq* cq, void* into, std::size_t count, const void*, int milliseconds) {
  Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  queue.news.wait_for(lock, std::chrono::milliseconds(milliseconds),
                      [&] { return queue.signalled || !queue.entries.empty() || !queue.errors.empty(); });
  queue.signalled = false;
  return read_queue(cq, into, count);
}

ssize_t read_error(fid_cq* cq, fi_cq_err_entry* into, std::uint64_t) {
  const Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  if (control.answer_of_queue_errors != 0) return control.answer_of_queue_errors;
  if (queue.errors.empty()) return -FI_EAGAIN;
  *into = queue.errors.front();
  queue.errors.pop_front();
  queue.last_sentence = queue.sentences.front();
  queue.sentences.pop_front();
  if (!queue.last_sentence.empty()) {
    into->err_data = queue.last_sentence.data();
    into->err_data_size = queue.last_sentence.size() + 1;
  }
  return 1;
}

const char* in_words(fid_cq*, int number, const void* data, char* into, std::size_t bytes) {
  if (data) return static_cast<const char*>(data);
  std::snprintf(into, bytes, "number %d in words", number);
  return into;
}

ssize_t read_events(fid_eq*, std::uint32_t*, void*, std::size_t, std::uint64_t) {
  const Lock lock(mutex);
  return control.card_errors.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}

ssize_t read_event_error(fid_eq*, fi_eq_err_entry* into, std::uint64_t) {
  const Lock lock(mutex);
  if (control.card_errors.empty()) return -FI_EAGAIN;
  *into = {};
  into->err = control.card_errors.front().error;
  into->prov_errno = control.card_errors.front().number;
  control.card_errors.erase(control.card_errors.begin());
  return sizeof *into;
}

int signal(fid_cq* cq) {
  const Lock lock(mutex);
  of<Queue>(cq)->signalled = true;
  of<Queue>(cq)->news.notify_all();
  return 0;
}

int insert(fid_av* av, const void* names, std::size_t count, fi_addr_t* into, std::uint64_t, void*) {
  const Lock lock(mutex);
  auto& ports = of<Addresses>(av)->ports;
  for (std::size_t i = 0; i < count; ++i) {
    into[i] = ports.size();
    ports.push_back(ntohs(static_cast<const sockaddr_in*>(names)[i].sin_port));
  }
  return static_cast<int>(count);
}

const char* in_words(fid_av*, const void* name, char* into, std::size_t* bytes) {
  std::snprintf(into, *bytes, "fi_sockaddr_in://made.up:%d", ntohs(static_cast<const sockaddr_in*>(name)->sin_port));
  return into;
}

}  // namespace

int open_addresses(fid_domain*, fi_av_attr*, fid_av** into, void*) {
  static fi_ops ops = plain(close_ours<Addresses>);
  static fi_ops_av calls = table<fi_ops_av>([](fi_ops_av& to) {
    to.insert = insert;
    to.straddr = in_words;
  });
  auto* const made = new Addresses;
  introduce(made->base.fid, FI_CLASS_AV, ops);
  made->base.ops = &calls;
  *into = &made->base;
  return 0;
}

int open_events(fid_fabric*, fi_eq_attr*, fid_eq** into, void*) {
  static fi_ops ops = plain(close_ours<fid_eq>);
  static fi_ops_eq calls = table<fi_ops_eq>([](fi_ops_eq& to) {
    to.read = read_events;
    to.readerr = read_event_error;
  });
  auto* const made = new fid_eq{};
  introduce(made->fid, FI_CLASS_EQ, ops);
  made->ops = &calls;
  *into = made;
  return 0;
}

int open_queue(fid_domain*, fi_cq_attr* wanted, fid_cq** into, void*) {
  if (wanted->wait_obj != FI_WAIT_NONE) ++control.waiting_queues;
  static fi_ops ops = plain(close_ours<Queue>);
  static fi_ops_cq calls = table<fi_ops_cq>([](fi_ops_cq& to) {
    to.read = read_queue;
    to.sread = sleep_in_queue;
    to.readerr = read_error;
    to.signal = signal;
    to.strerror = in_words;
  });
  auto* const made = new Queue;
  introduce(made->base.fid, FI_CLASS_CQ, ops);
  made->base.ops = &calls;
  *into = &made->base;
  return 0;
}

}  // namespace fabring::made_up
