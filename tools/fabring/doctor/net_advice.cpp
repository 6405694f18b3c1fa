#include "tools/fabring/doctor/net_advice.hpp"

#include <algorithm>
#include <array>

namespace fabring::tools {
namespace {

constexpr std::array advices{
    Advice{
        Reach::refused, "net.refused", "refused: nobody listens at that address and port, or a firewall says no",
        why_unreachable,
        "check that the address is that host's (FABRING_INTERFACE chooses another), and that no firewall rejects TCP "
        "between the hosts: ranks listen at ports that the system chooses"},
    Advice{Reach::no_answer, "net.dropped", "no answer: packets are dropped on the way, there or back", why_unreachable,
           "let a firewall or security group pass all TCP ports between the hosts (on EC2: a rule with the group "
           "itself as "
           "source and one with itself as destination); an address on a network that is not connected gives the same: "
           "FABRING_INTERFACE chooses"},
    Advice{Reach::no_route, "net.no_route", "no way there from that host", why_unreachable,
           "`ip route get ADDRESS` on the first host shows what it would do; add the route, or choose a network that "
           "joins all hosts with FABRING_INTERFACE"},
    Advice{
        Reach::cut, "net.reset", "the connection is accepted and then reset or closed", why_unreachable,
        "something between the hosts breaks connections that it does not know: a proxy, a service mesh, an intrusion "
        "detection; exempt these hosts from it"},
    Advice{Reach::mute, "net.mute", "the connection is accepted, then nothing comes", why_unreachable,
           "something in between accepts in the other's place (a proxy, a load balancer), or packets with data are "
           "dropped: look at MTU and firewall"},
    Advice{Reach::wrong_service, "net.wrong_service", "something else answers there", why_unreachable,
           "the address leads to another host or to a proxy: two hosts with one address, or a translation in between"},
    Advice{Reach::turned_away, "net.turned_away", "another rank answers there", why_unreachable,
           "make all ranks run the same version of Fabring with the same FABRING_JOB_ID and secret; two hosts with one "
           "address give the same"},
    Advice{
        Reach::large_stalls, "net.mtu", "small messages pass, 64 KiB do not arrive",
        "a job starts, and hangs with the first large message",
        "an MTU is smaller somewhere on the way than at both ends and nobody says so: make the MTU the same on hosts "
        "and "
        "switch ports, or smaller on the hosts (`ip link set dev IF mtu 1400`); `ping -M do -s 1472 ADDRESS` finds the "
        "limit"},
};

}  // namespace

const Advice* advice_for(Reach reach) {
  const auto at = std::find_if(advices.begin(), advices.end(), [&](const Advice& one) { return one.reach == reach; });
  return at == advices.end() ? nullptr : &*at;
}

}  // namespace fabring::tools
