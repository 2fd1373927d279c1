#include "apps/replay/platform.hpp"

#include <fmt/format.h>

#include <simgrid/s4u.hpp>

namespace keelson::replay {
namespace {

namespace sg = simgrid::s4u;

constexpr double unit_latency = 1e-6;  // latency of the star; a factor converts it to the latency of the path

/// Adds a rank's host. A message to itself takes no time.
sg::Host* add_rank(sg::NetZone* star, const bench::Machine& m, int rank) {
  const std::string name = std::to_string(rank);
  sg::Host* host = star->add_host(name, 1e9);
  const sg::Link* out = star->add_split_duplex_link(name, m.rank_bandwidth)->set_latency(unit_latency / 2);
  star->add_route(host, nullptr, {{out, sg::LinkInRoute::Direction::UP}}, true);
  const sg::Link* self = star->add_link(name + " self", 1e18)->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE);
  star->add_route(host, host, {sg::LinkInRoute(self)}, false);
  return host;
}

/// The path of a message between two ranks.
struct Path {
  double bandwidth, latency;
};

class Paths {
 public:
  explicit Paths(const bench::Machine& m) : m_(m) {}

  Path between(const sg::Host* src, const sg::Host* dst) const {
    const int a = std::stoi(src->get_name()), b = std::stoi(dst->get_name());
    Path p{m_.rank_bandwidth, 2 * m_.rank_latency};
    if (a == b) return {1e18, 0};
    if (a / m_.ranks_per_node == b / m_.ranks_per_node) return p;
    p.bandwidth = std::min(p.bandwidth, m_.node_bandwidth / m_.ranks_per_node);
    p.latency += 2 * m_.node_latency;
    if (a / m_.ranks_per_group() == b / m_.ranks_per_group()) return p;
    p.bandwidth = std::min(p.bandwidth, m_.group_bandwidth / m_.ranks_per_group());
    p.latency += 2 * m_.group_latency;
    return p;
  }

 private:
  const bench::Machine& m_;
};

}  // namespace

std::vector<sg::Host*> make_platform(const bench::Machine& m, int ranks) {
  sg::NetZone* root = sg::Engine::get_instance()->get_netzone_root();
  const Paths paths(m);
  root->set_bandwidth_factor_cb(
      [paths, whole = m.rank_bandwidth](double, const sg::Host* src, const sg::Host* dst, const auto&, const auto&) {
        return src == dst ? 1 : paths.between(src, dst).bandwidth / whole;
      });
  root->set_latency_factor_cb([paths](double, const sg::Host* src, const sg::Host* dst, const auto&, const auto&) {
    return paths.between(src, dst).latency / unit_latency;
  });
  sg::NetZone* star = root->add_netzone_star("machine");
  std::vector<sg::Host*> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(add_rank(star, m, rank));
  star->seal();
  return hosts;
}

}  // namespace keelson::replay
