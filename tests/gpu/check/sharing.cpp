// Processes of one host, each with memory on a GPU (several may share one), that reduce each other's memory by kernels,
// in turns that the processors agree on: no kernel waits for another process.

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "tests/gpu/check/device_under_test.hpp"

namespace fabring::gpu_check {
namespace {

constexpr std::size_t most = std::size_t{64} << 20;
constexpr std::size_t tried = std::size_t{8} << 20;  // bytes, where only results count

// In memory that all processes see.
struct Turns {
  std::atomic<int> arrived{0};
  std::atomic<int> turn{0};
  std::atomic<bool> broken{false};

  void wait_for_all(int processes) {
    const int mine = turn.load();
    if (arrived.fetch_add(1) + 1 == processes) {
      arrived.store(0);
      turn.store(mine + 1);
      return;
    }
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    for (int looks = 0; turn.load() == mine; ++looks) {
      if (broken.load()) give_up("another process failed");
      if (looks < 2000) continue;
      std::this_thread::yield();
      if (looks % 1024 == 0 && Clock::now() > deadline) give_up("a process has not come in 60 s");
    }
  }
};

void send_share(int socket, const DeviceShare& share) {
  iovec bytes{const_cast<DeviceShare::Facts*>(&share.facts), sizeof share.facts};
  alignas(cmsghdr) char control[CMSG_SPACE(DeviceShare::most_pieces * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!share.descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(share.descriptors.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(share.descriptors.size() * sizeof(int));
    for (std::size_t i = 0; i < share.descriptors.size(); ++i) {
      const int fd = share.descriptors[i].fd();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof share.facts))
    give_up("cannot send to a process");
}

DeviceShare receive_share(int socket) {
  DeviceShare share;
  iovec bytes{&share.facts, sizeof share.facts};
  alignas(cmsghdr) char control[CMSG_SPACE(DeviceShare::most_pieces * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof share.facts))
    give_up("nothing came from a process");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header))
    for (std::size_t i = 0; i + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); i += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i, sizeof fd);
      share.descriptors.emplace_back(fd);
    }
  return share;
}

// Memory in two pieces, as a framework's expandable segments are. The driver's own interface: Fabring only imports.
// `old`: instead of these, at the same place.
std::byte* allocate_pieces(DeviceUnderTest& gpu, std::size_t bytes, std::byte* old = nullptr) {
  struct Properties {
    int type = 1, handle_types = 1;  // pinned to its device; a descriptor
    int location_type = 1, location = 0;
    void* unused = nullptr;
    unsigned char flags[8] = {};
  };
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto function = [&](const char* name, auto example) {
    return reinterpret_cast<decltype(example)>(dlsym(driver, name));
  };
  using Number = unsigned long long;
  const auto create = function("cuMemCreate", static_cast<int (*)(Number*, std::size_t, const void*, Number)>(nullptr));
  const auto reserve =
      function("cuMemAddressReserve", static_cast<int (*)(Number*, std::size_t, std::size_t, Number, Number)>(nullptr));
  const auto map =
      function("cuMemMap", static_cast<int (*)(Number, std::size_t, std::size_t, Number, Number)>(nullptr));
  const auto unmap = function("cuMemUnmap", static_cast<int (*)(Number, std::size_t)>(nullptr));
  const auto release = function("cuMemRelease", static_cast<int (*)(Number)>(nullptr));
  const auto grant =
      function("cuMemSetAccess", static_cast<int (*)(Number, std::size_t, const void*, std::size_t)>(nullptr));
  const auto retain = function("cuDevicePrimaryCtxRetain", static_cast<int (*)(void**, int)>(nullptr));
  const auto push = function("cuCtxPushCurrent_v2", static_cast<int (*)(void*)>(nullptr));
  const auto pop = function("cuCtxPopCurrent_v2", static_cast<int (*)(void**)>(nullptr));
  void* context = nullptr;
  retain(&context, gpu.device);
  push(context);
  Properties properties;
  properties.location = gpu.device;
  Number at = reinterpret_cast<Number>(old), piece = 0;
  int answer = old == nullptr ? reserve(&at, bytes, 0, 0, 0) : 0;
  for (std::size_t half = 0; half < 2 && answer == 0; ++half) {
    if (old != nullptr) answer = unmap(at + half * (bytes / 2), bytes / 2);
    if (answer == 0) answer = create(&piece, bytes / 2, &properties, 0);
    if (answer != 0) break;
    answer = map(at + half * (bytes / 2), bytes / 2, 0, piece, 0);
    release(piece);
  }
  const int access[3] = {1, gpu.device, 3};
  if (answer == 0) answer = grant(at, bytes, access, 1);
  pop(&context);
  if (answer != 0) give_up("memory in pieces: the driver answered " + std::to_string(answer));
  return reinterpret_cast<std::byte*>(at);
}

class Member {
 public:
  Member(int self, int processes, std::vector<int> sockets, Turns& turns, bool pieces, std::size_t bytes)
      : gpu_(self),
        self_(self),
        processes_(processes),
        sockets_(std::move(sockets)),
        turns_(turns),
        pieces_(pieces),
        bytes_(bytes),
        pinned_(reinterpret_cast<float*>(gpu_.allocate_pinned(bytes))),
        in_(pieces ? allocate_pieces(gpu_, bytes) : gpu_.allocate(bytes)),
        out_(pieces ? allocate_pieces(gpu_, bytes) : gpu_.allocate(bytes)) {
    meet();
  }

  // Everybody's input into one's own output. `floats` begin one after the allocation's begin.
  void one_shot(std::size_t floats) {
    std::vector<const std::byte*> sources;
    for (const auto& in : ins_) sources.push_back(in.get());
    reduce(out_, sources, floats);
    gpu_.finish();
  }

  // One's part of everybody's input into one's own output, and then the others' parts from theirs.
  void two_shot(std::size_t floats) {
    const auto begin = [&](int rank) {
      return floats * static_cast<std::size_t>(rank) / static_cast<std::size_t>(processes_);
    };
    std::vector<const std::byte*> sources;
    for (const auto& in : ins_) sources.push_back(in.get() + begin(self_) * 4);
    reduce(out_ + begin(self_) * 4, sources, begin(self_ + 1) - begin(self_));
    gpu_.finish();
    all_together();
    for (int other = 0; other < processes_; ++other) {
      const std::size_t bytes = (begin(other + 1) - begin(other)) * 4;
      if (other != self_ && bytes > 0)
        gpu_.copy(out_ + begin(other) * 4, outs_[static_cast<std::size_t>(other)].get() + begin(other) * 4, bytes);
    }
    gpu_.finish();
  }

  void check(std::size_t floats, int round, bool two) {
    for (std::size_t i = 0; i < floats; ++i) pinned_[i] = value(self_, i, round);
    gpu_.copy(in_, pinned_, floats * 4);
    gpu_.finish();
    all_together();  // every input is there
    two ? two_shot(floats) : one_shot(floats);
    std::fill_n(pinned_, floats, -1.0f);
    gpu_.copy(pinned_, out_, floats * 4);
    gpu_.finish();
    for (std::size_t i = 0; i < floats; ++i) {
      float right = 0;
      for (int rank = 0; rank < processes_; ++rank) right += value(rank, i, round);
      if (pinned_[i] != right)
        give_up("WRONG: process " + std::to_string(self_) + ", element " + std::to_string(i) + " of " +
                std::to_string(floats) + (two ? ", two shots: " : ", one shot: ") + std::to_string(pinned_[i]) +
                " and not " + std::to_string(right));
    }
    all_together();  // and nobody reads any more
  }

  // What was opened once is found again; what was freed and made anew is not taken for the old, also not pieces that
  // others took the place of.
  void check_opening() {
    const auto again = receive_all(in_);
    for (int other = 0; other < processes_; ++other)
      if (other != self_ && again[static_cast<std::size_t>(other)] != ins_[static_cast<std::size_t>(other)])
        give_up("the same memory was opened at another place");
    all_together();
  }
  void replace_input() {
    ins_.clear();
    all_together();
    if (pieces_) {
      in_ = allocate_pieces(gpu_, bytes_, in_);
    } else {
      gpu_.runtime->free(gpu_.device, in_);
      in_ = gpu_.allocate(bytes_);
    }
    meet();
  }

  void measure() {
    if (self_ == 0) std::printf("# %d processes: bytes, us and busbw (GB/s) of one shot, of two shots\n", processes_);
    for (std::size_t bytes = 8; bytes <= bytes_; bytes *= 8) {
      double time[2] = {};
      for (const bool two : {false, true}) {
        if (bytes < 1024 && two) continue;
        const int calls = bytes >= (1 << 20) ? 20 : 50;
        for (int i = -3; i < calls; ++i) {
          if (i == 0) time[two] = now();
          all_together();
          two ? two_shot(bytes / 4) : one_shot(bytes / 4);
          all_together();
        }
        time[two] = (now() - time[two]) / calls;
      }
      const double busbw = 2e-3 * static_cast<double>(bytes) * (processes_ - 1) / processes_;
      if (self_ == 0)
        std::printf("%11zu  %9.2f %8.2f  %9.2f %8.2f\n", bytes, time[0], busbw / time[0], time[1],
                    time[1] > 0 ? busbw / time[1] : 0);
    }
  }

 private:
  static float value(int rank, std::size_t i, int round) {
    return static_cast<float>((static_cast<int>(i % 1021) + rank * 7 + round * 13) % 4096);
  }
  static double now() { return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count(); }
  void all_together() { turns_.wait_for_all(processes_); }

  void reduce(std::byte* to, const std::vector<const std::byte*>& sources, std::size_t floats) {
    require(gpu_.queue->post_reduce({DataType::float32, ReduceOp::sum, to, sources, floats}), "a reduction");
  }

  std::vector<std::shared_ptr<std::byte>> receive_all(std::byte* mine) {
    DeviceShare share{required(gpu_.runtime->share(mine, bytes_), "sharing memory"), {}};
    share.descriptors = required(gpu_.runtime->export_pieces(share.facts), "descriptors of its pieces");
    for (int other = 0; other < processes_; ++other)
      if (other != self_) send_share(sockets_[static_cast<std::size_t>(other)], share);
    std::vector<std::shared_ptr<std::byte>> all;
    for (int other = 0; other < processes_; ++other)
      all.push_back(other == self_
                        ? required(gpu_.runtime->open_share(gpu_.device, share), "one's own memory")
                        : required(gpu_.runtime->open_share(gpu_.device,
                                                            receive_share(sockets_[static_cast<std::size_t>(other)])),
                                   "opening another's memory"));
    return all;
  }
  void meet() {
    ins_ = receive_all(in_);
    outs_ = receive_all(out_);
    all_together();
  }

  DeviceUnderTest gpu_;
  const int self_, processes_;
  const std::vector<int> sockets_;  // by process
  Turns& turns_;
  const bool pieces_;
  const std::size_t bytes_;
  float* const pinned_;
  std::byte* in_;
  std::byte* out_;
  std::vector<std::shared_ptr<std::byte>> ins_, outs_;  // by process
};

int run_member(int self, int processes, std::vector<int> sockets, Turns& turns, bool pieces, bool figures) {
  Member member(self, processes, std::move(sockets), turns, pieces, figures ? most : tried);
  int round = 0;
  for (const std::size_t floats : {std::size_t{1}, std::size_t{1000}, std::size_t{70'001}, tried / 4})
    for (const bool two : {false, true}) member.check(floats, ++round, two);
  member.check_opening();
  for (int i = 0; i < 3; ++i) {
    member.replace_input();
    member.check(5000, ++round, false);
  }
  if (figures) member.measure();
  return 0;
}

}  // namespace

int check_sharing(int processes, bool pieces, bool figures) {
  void* const shared = mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) give_up("no memory", 3);
  auto& turns = *new (shared) Turns;
  const auto n = static_cast<std::size_t>(processes);
  std::vector<std::vector<int>> sockets(n, std::vector<int>(n, -1));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      int both[2];
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) give_up("no socket", 3);
      const timeval patience{60, 0};
      for (const int one : both) ::setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      sockets[i][j] = both[0];
      sockets[j][i] = both[1];
    }
  std::vector<pid_t> children;  // begun before anything of CUDA is
  for (int self = 0; self < processes; ++self) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int code = run_member(self, processes, sockets[static_cast<std::size_t>(self)], turns, pieces, figures);
      std::fflush(nullptr);
      std::_Exit(code);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (std::size_t left = n; left > 0; --left) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0) break;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0) turns.broken = true;
    worst = worst == 0 || worst == 1 ? std::max(worst, code) : worst;
  }
  if (worst == 0)
    std::printf("ok  %d processes reduced each other's memory%s\n", processes, pieces ? ", mapped piece by piece" : "");
  return worst;
}

}  // namespace fabring::gpu_check
