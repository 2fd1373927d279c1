#include "comm/allreduce/allreduces.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <climits>

#include "comm/allreduce/peer_exchange.hpp"
#include "comm/mpi/calls.hpp"
#include "comm/mpi/support.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::comm::detail {
namespace {

using Algorithm = AllreduceAlgorithm::Kind;

/// The rounding errors of an array so far; empty in fp32.
std::vector<float> residual_of(const CollectiveDesc& desc) {
  return std::vector<float>(desc.wire == Wire::fp32 ? 0 : desc.count);
}

/// A sum by sends and receives between all ranks, a few pieces at a time. Each piece has its own messages.
class PeerSum final : public CollectiveWork {
 public:
  static constexpr int most_at_once = 4;

  PeerSum(MPI_Comm comm, int first_tag, Schedule schedule, const CollectiveDesc& desc, std::size_t piece)
      : schedule_(std::move(schedule)),
        data_(static_cast<float*>(desc.dst)),
        count_(desc.count),
        piece_(std::min(piece, desc.count)),
        pieces_(piece_ == 0 ? 0 : (count_ + piece_ - 1) / piece_),
        residual_(residual_of(desc)) {
    for (int i = 0; i < most_at_once && static_cast<std::size_t>(i) < pieces_; ++i)
      lanes_.push_back({{comm, first_tag + i, schedule_, piece_, desc.wire}, pieces_});
  }

  void start() override {
    done_ = 0;
    for (std::size_t i = 0; i < lanes_.size(); ++i) start(lanes_[i], i);
  }

  Progress advance() override {
    bool moved = false;
    for (Lane& lane : lanes_)
      while (lane.piece < pieces_) {
        const Progress progress = lane.exchange.advance();
        moved = moved || progress != Progress::none;
        if (progress != Progress::done) break;
        ++done_;
        start(lane, lane.piece + lanes_.size());
      }
    return done_ == pieces_ ? Progress::done : moved ? Progress::some : Progress::none;
  }

 private:
  /// Sums every most_at_once-th piece, the same pieces on all ranks, so that its messages have the same order on all
  /// ranks.
  struct Lane {
    PeerExchange exchange;
    std::size_t piece;  ///< the current piece; pieces_ or more: none
  };

  void start(Lane& lane, std::size_t piece) {
    lane.piece = piece;
    if (piece >= pieces_) return;
    const std::size_t begin = piece * piece_;
    lane.exchange.start(data_ + begin, std::min(piece_, count_ - begin),
                        residual_.empty() ? nullptr : residual_.data() + begin);
  }

  Schedule schedule_;
  float* data_;
  std::size_t count_, piece_, pieces_;
  std::vector<float> residual_;
  std::vector<Lane> lanes_;
  std::size_t done_ = 0;
};

/// A sum through the shared memory of nodes.
class SharedSum final : public CollectiveWork {
 public:
  SharedSum(NodeSum& sum, const CollectiveDesc& desc) : sum_(sum), residual_(residual_of(desc)) {
    request_.data = static_cast<float*>(desc.dst);
    request_.count = desc.count;
    request_.residual = residual_.empty() ? nullptr : residual_.data();
  }
  void start() override { sum_.start(request_); }
  Progress advance() override {
    const bool moved = !sum_.done(request_) && sum_.advance();
    return sum_.done(request_) ? Progress::done : moved ? Progress::some : Progress::none;
  }

 private:
  NodeSum& sum_;
  std::vector<float> residual_;
  NodeSum::Request request_;
};

/// The number of ranks in a group of two-level sums (KEELSON_NODE_RANKS); 0: all ranks of a node are a group.
int wanted_group() {
  const std::string text = environment("KEELSON_NODE_RANKS");
  if (text.empty()) return 0;
  const auto ranks = parse_number<int>(text);
  if (!ranks || *ranks < 1)
    refuse("the environment variable KEELSON_NODE_RANKS is '{}': expected the number of ranks that share a socket, say",
           text);
  return *ranks;
}

MPI_Comm split(MPI_Comm comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm, color, key, &part), "MPI_Comm_split");
  MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
  return part;
}

}  // namespace

Allreduces::Allreduces(MPI_Comm comm) {
  check(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
  find_nodes();
}

Allreduces::~Allreduces() {
  node_sums_.clear();
  if (!mpi_running() || left_unfinished()) return;
  for (MPI_Comm* each : {&layout_.peers, &layout_.node, &comm_})
    if (*each != MPI_COMM_NULL) MPI_Comm_free(each);
}

void Allreduces::find_nodes() {
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &layout_.node), "MPI_Comm_split_type");
  MPI_Comm_set_errhandler(layout_.node, MPI_ERRORS_RETURN);
  int in_node = 0, node_ranks = 1;
  MPI_Comm_rank(layout_.node, &in_node);
  if (const int group = wanted_group()) {
    MPI_Comm whole = layout_.node;
    layout_.node = split(whole, in_node / group, in_node);
    MPI_Comm_free(&whole);
    MPI_Comm_rank(layout_.node, &in_node);
  }
  MPI_Comm_size(layout_.node, &node_ranks);
  const int leads = in_node == 0 ? 1 : 0;
  check(MPI_Allreduce(&leads, &layout_.nodes, 1, MPI_INT, MPI_SUM, comm_), "MPI_Allreduce", "nodes");
  check(MPI_Allreduce(&node_ranks, &layout_.parts, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce", "ranks of nodes");
  layout_.peers = split(comm_, in_node, rank_);
  shared_memory_ = layout_.nodes < ranks_;
}

NodeSum& Allreduces::node_sum(bool ring, Wire wire) {
  auto& found = node_sums_[{ring, wire}];
  if (!found) {
    int rank = 0, size = 1;
    MPI_Comm_rank(layout_.peers, &rank);
    MPI_Comm_size(layout_.peers, &size);
    found = std::make_unique<NodeSum>(layout_, ring ? make_ring(rank, size) : make_halving(rank, size), wire,
                                      static_cast<int>(node_sums_.size()));
  }
  return *found;
}

int Allreduces::take_tags(int count) {
  if (next_tag_ + count > highest_tag(comm_)) next_tag_ = 0;  // collectives with the first tags no longer exist
  return std::exchange(next_tag_, next_tag_ + count);
}

std::unique_ptr<CollectiveWork> Allreduces::make(const AllreduceAlgorithm& algorithm, const CollectiveDesc& desc) {
  KEELSON_EXPECT(desc.kind == CollectiveDesc::Kind::allreduce && desc.element == CollectiveDesc::Element::f32);
  if (const AllreduceFacts here = facts(desc.wire, desc.order); !is_supported(algorithm, here)) {
    auto names = AllreduceAlgorithm::names();
    std::erase_if(names, [&](const auto& name) { return !is_supported(AllreduceAlgorithm::parse(name), here); });
    refuse("{}: the allreduce algorithm {} (KEELSON_ALLREDUCE) is not possible here{}; choose {}", desc.label,
           algorithm.to_string(),
           desc.order == SumOrder::tree ? " with sums in a fixed order (--reproducible)"
           : desc.wire == Wire::fp32    ? ""
                                        : " with numbers of 16 bits",
           fmt::join(names, " or "));
  }
  constexpr std::size_t longest = std::size_t{1} << 28;  // MPI counts in int
  const std::size_t wanted = algorithm.piece_bytes / sizeof(float), piece = wanted > 0 ? wanted : longest;
  const auto by_peers = [&](Schedule schedule) {
    return std::make_unique<PeerSum>(comm_, take_tags(PeerSum::most_at_once), std::move(schedule), desc, piece);
  };
  if (const auto schedule = algorithm.schedule()) return by_peers(schedule(rank_, ranks_));
  if (algorithm.kind == Algorithm::mpi)
    return std::make_unique<MpiCalls>(comm_, desc, 0, std::min(piece, detail::piece));
  return std::make_unique<SharedSum>(node_sum(algorithm.kind == Algorithm::two_level_ring, desc.wire), desc);
}

}  // namespace keelson::comm::detail
