#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "topology/rail_choice.hpp"

namespace fabring {
namespace {

struct Question {
  nlmsghdr header{};
  rtmsg route{};
  std::array<char, 64> attributes{};
};

void add_address(Question& question, unsigned short type, const unsigned char* bytes, unsigned short size) {
  auto* attribute =
      reinterpret_cast<rtattr*>(reinterpret_cast<char*>(&question) + NLMSG_ALIGN(question.header.nlmsg_len));
  attribute->rta_type = type;
  attribute->rta_len = static_cast<unsigned short>(RTA_LENGTH(size));
  std::memcpy(RTA_DATA(attribute), bytes, size);
  question.header.nlmsg_len = NLMSG_ALIGN(question.header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
}

}  // namespace

// As `ip route get TO from FROM`: with several cards of one network the kernel's rules may look at the sender's
// address.
std::string interface_towards(std::string_view from, std::string_view to) {
  unsigned char source[16], target[16];
  const int family = to.find(':') == std::string_view::npos ? AF_INET : AF_INET6;
  if (::inet_pton(family, std::string(from).c_str(), source) != 1 ||
      ::inet_pton(family, std::string(to).c_str(), target) != 1)
    return {};
  const auto size = static_cast<unsigned short>(family == AF_INET ? 4 : 16);
  Question question;
  question.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
  question.header.nlmsg_type = RTM_GETROUTE;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.route.rtm_family = static_cast<unsigned char>(family);
  question.route.rtm_src_len = question.route.rtm_dst_len = static_cast<unsigned char>(8 * size);
  add_address(question, RTA_DST, target, size);
  add_address(question, RTA_SRC, source, size);
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return {};
  timeval limit{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  ssize_t got = -1;
  if (::send(fd, &question, question.header.nlmsg_len, 0) >= 0) got = ::recv(fd, answer.data(), answer.size(), 0);
  ::close(fd);
  auto left = static_cast<int>(got);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (got < 0 || !NLMSG_OK(header, static_cast<unsigned>(left)) || header->nlmsg_type != RTM_NEWROUTE) return {};
  left = static_cast<int>(header->nlmsg_len) - static_cast<int>(NLMSG_LENGTH(sizeof(rtmsg)));
  const auto* attribute = reinterpret_cast<const rtattr*>(answer.data() + NLMSG_LENGTH(sizeof(rtmsg)));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    int index = 0;
    char name[IF_NAMESIZE] = "";
    if (attribute->rta_type != RTA_OIF || RTA_PAYLOAD(attribute) < sizeof index) continue;
    std::memcpy(&index, RTA_DATA(attribute), sizeof index);
    return ::if_indextoname(static_cast<unsigned>(index), name) != nullptr ? name : "";
  }
  return {};
}

}  // namespace fabring
