#include "runtime/status/status_visit.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/base/socket_holder.hpp"

namespace fabring {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using Outcome = StatusVisit::Outcome;
constexpr std::size_t most_doors = 65536;
constexpr int most_visits = 3;
constexpr auto stopped_limit = std::chrono::milliseconds(200);

char process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t end = text.rfind(')');  // the name before may hold anything
  return end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
}

/// Those that listen under this name. /proc/net/unix: Num RefCount Protocol Flags Type St Inode Path.
std::vector<std::string> listening_links(const std::string& name) {
  constexpr std::string_view listens = "00010000";
  std::vector<std::string> links;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    if (!line.ends_with(" @" + name)) continue;
    std::istringstream fields(line);
    std::string field[7];
    for (std::string& f : field) fields >> f;
    if (field[3] == listens) links.push_back(socket_link(field[6]));
  }
  return links;
}

/// Who is behind a door at which so many wait that nobody can join them: it is not asked, so /proc is. A rank that is
/// stopped lets nobody in, and who goes away again still waits.
void look_who_listens(StatusVisit& door) {
  door.pid = socket_holder(listening_links(door.name));
  struct stat process {};
  if (door.pid == 0 || ::stat(fmt::format("/proc/{}", door.pid).c_str(), &process) != 0) return;
  door.uid = process.st_uid;
  door.process = process_state(door.pid);
}

/// False: the limit passed.
bool wait(int fd, short events, SteadyTime until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::min<long>(left.count(), 3'600'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool connect_to(int fd, const std::string& name) {
  const auto address = AbstractAddress::of(name);
  return address && address->connect(fd);
}

Outcome ask(int fd, bool everybody, SteadyTime until, std::vector<RankNews>& news) {
  const std::string request = encode_status_request(everybody);
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return Outcome::refused;
  std::string answer;
  for (char part[65536];;) {
    const ssize_t got = ::recv(fd, part, sizeof(part), 0);
    if (got == 0) break;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return answer.empty() ? Outcome::refused : Outcome::gone;
    if (got > 0) answer.append(part, static_cast<std::size_t>(got));
    if (answer.size() > most_status_answer_bytes) return Outcome::nonsense;
    if (got < 0 && !wait(fd, POLLIN, until)) return Outcome::silent;
  }
  if (answer.empty()) return Outcome::refused;
  auto decoded = decode_status_answer(answer);
  if (!decoded || decoded->empty()) return Outcome::nonsense;
  news = std::move(*decoded);
  return Outcome::answered;
}

/// Root's doors are for root.
bool is_open_to_us(const StatusVisit& door) { return door.uid == ::geteuid() || ::geteuid() == 0; }

Outcome visit_once(StatusVisit& door, bool everybody, SteadyTime until) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return Outcome::gone;
  if (!connect_to(socket.fd(), door.name)) {
    if (errno != EAGAIN) return Outcome::gone;
    look_who_listens(door);
    return Outcome::silent;
  }
  if (const auto peer = credentials_of(socket.fd())) {
    door.pid = peer->pid;
    door.uid = peer->uid;
    door.process = process_state(peer->pid);
  }
  // One that is stopped answers nobody; it may be about to go on.
  if (door.process == 'T' || door.process == 't')
    until = std::min(until, std::chrono::steady_clock::now() + stopped_limit);
  // Root may ask anybody, and anybody trusts root's answers.
  if (door.uid != 0 && !is_open_to_us(door)) return Outcome::foreign;
  const Outcome outcome = ask(socket.fd(), everybody, until, door.news);
  // A stop reaches a process when its threads have their next turn, which may be after the first look.
  if (outcome == Outcome::silent && door.pid > 0) door.process = process_state(door.pid);
  return outcome;
}

}  // namespace

Result<std::vector<StatusVisit>> find_status_doors() {
  std::ifstream file("/proc/net/unix");
  if (!file) return Status(ErrorCode::unavailable, "cannot read /proc/net/unix, where the status sockets are found");
  std::vector<StatusVisit> doors;
  std::set<std::string> seen;  // a connected socket shows the name once more
  for (std::string line; std::getline(file, line) && doors.size() < most_doors;) {
    const std::size_t at = line.find(std::string("@") + std::string(status_name_prefix));
    if (at == std::string::npos) continue;
    StatusVisit door;
    door.name = line.substr(at + 1);
    const auto who = parse_status_name(door.name);
    if (!who || !seen.insert(door.name).second) continue;
    door.who = *who;
    doors.push_back(std::move(door));
  }
  std::sort(doors.begin(), doors.end(), [](const StatusVisit& a, const StatusVisit& b) {
    return std::tie(a.who.job, a.who.rank) < std::tie(b.who.job, b.who.rank);
  });
  return doors;
}

void visit(StatusVisit& door, bool everybody, std::chrono::milliseconds limit) {
  const SteadyTime until = std::chrono::steady_clock::now() + limit;
  // A rank that ends hangs up first, and is gone when it is asked once more.
  for (int visits = 0; visits < most_visits; ++visits) {
    door.outcome = visit_once(door, everybody, until);
    if (door.outcome != Outcome::refused || !is_open_to_us(door)) return;
  }
  door.outcome = Outcome::nonsense;
}

}  // namespace fabring
