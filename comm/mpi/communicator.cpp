#include "comm/mpi/communicator.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <map>
#include <numeric>

#include "comm/mpi/collective.hpp"
#include "comm/mpi/gathered_sum.hpp"
#include "comm/mpi/support.hpp"
#include "comm/mpi/ulfm.hpp"
#include "comm/watch/call_limit.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::string_view broadcast_label = "a broadcast";

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const WatchdogOptions& watchdog, int number,
                                 std::shared_ptr<MpiProgress> progress)
    : comm_(comm), progress_(progress ? std::move(progress) : std::make_shared<MpiProgress>()) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(comm_, &info_.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &info_.size), "MPI_Comm_size");
  find_nodes();
  info_.number = number < 0 ? info_.rank : number;
  members_ = gather_members(comm_, info_.number);
  info_.host = members_[static_cast<std::size_t>(info_.rank)].host;
  stall_detector_ = std::make_unique<StallDetector>(comm_, names_of(members_), watchdog);
}

MpiCommunicator::~MpiCommunicator() {
  if (parent_ != nullptr) std::erase(parent_->parts_, this);
  for (MpiCommunicator* part : parts_) part->parent_ = nullptr;
  chooser_.reset();
  allreduces_.reset();
  stall_detector_.reset();
  if (mpi_running() && !left_unfinished()) MPI_Comm_free(&comm_);
}

void MpiCommunicator::find_nodes() {
  MPI_Comm local = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, info_.rank, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
  int lowest = info_.rank;  // lowest rank of the node
  check(MPI_Bcast(&lowest, 1, MPI_INT, 0, local), "MPI_Bcast", "nodes");
  MPI_Comm_free(&local);
  nodes_of_.resize(static_cast<std::size_t>(info_.size));
  check(MPI_Allgather(&lowest, 1, MPI_INT, nodes_of_.data(), 1, MPI_INT, comm_), "MPI_Allgather", "nodes");
  count_nodes();
}

/// Numbers the nodes again, in the order of their lowest ranks.
void MpiCommunicator::count_nodes() {
  std::map<int, int> numbers;
  for (int& node : nodes_of_) node = numbers.try_emplace(node, static_cast<int>(numbers.size())).first->second;
  info_.nodes = static_cast<int>(numbers.size());
  const auto mine = nodes_of_.begin() + info_.rank;
  info_.node = *mine;
  info_.local_rank = static_cast<int>(std::count(nodes_of_.begin(), mine, info_.node));
  info_.local_size = static_cast<int>(std::count(nodes_of_.begin(), nodes_of_.end(), info_.node));
}

void MpiCommunicator::complete(std::span<MPI_Request> requests, Wait wait) {
  Backoff backoff;
  for (MPI_Request& request : requests) {
    for (;;) {
      int done = 0;
      const int result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (ulfm::is_loss(result)) revoke();  // so that ranks that wait for living ranks also get an error
      check(result, "a collective call", wait.label);
      if (done) break;
      ActiveCollectives::advance();
      if (const double seconds = backoff(); seconds >= Backoff::late) stall_detector_->poll(wait, seconds);
    }
  }
}

void MpiCommunicator::complete(MPI_Request request, std::string_view label) {
  complete({&request, 1}, {.number = ++calls_, .label = label, .for_first_rank = label == broadcast_label});
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  barrier();  // under the watchdog, which does not watch the following calls
  const CallLimit limit("making a group of ranks", stall_detector_->watchdog().abort_seconds, watchdog_advice);
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
  if (survives_losses()) barrier();  // Open MPI 6.0.0rc2 crashes if a part is revoked before it is made
  if (part == MPI_COMM_NULL) return nullptr;
  auto group = adopt(part, stall_detector_->watchdog(), number(), progress_);
  if (auto* made = dynamic_cast<MpiCommunicator*>(group.get())) {
    made->parent_ = this;
    parts_.push_back(made);
  }
  return group;
}

void MpiCommunicator::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
  complete(request, "a barrier");
}

void MpiCommunicator::broadcast(void* data, std::size_t bytes, int root) {
  KEELSON_EXPECT(root >= 0 && root < info_.size);
  auto* at = static_cast<char*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t count = std::min(left, piece);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(at, static_cast<int>(count), MPI_BYTE, root, comm_, &request), "MPI_Ibcast");
    complete(request, broadcast_label);
    at += count;
    left -= count;
  }
}

void MpiCommunicator::reduce(void* data, Number number, std::size_t count, Reduction op) {
  const MPI_Datatype type = number == Number::f32 ? MPI_FLOAT : number == Number::f64 ? MPI_DOUBLE : MPI_INT64_T;
  const MPI_Op mpi = op == Reduction::min ? MPI_MIN : op == Reduction::max ? MPI_MAX : MPI_SUM;
  const std::size_t bytes = number == Number::f32 ? 4 : 8;
  auto* at = static_cast<char*>(data);
  for (std::size_t left = count; left > 0;) {
    const std::size_t now = std::min(left, piece);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(MPI_IN_PLACE, at, static_cast<int>(now), type, mpi, comm_, &request), "MPI_Iallreduce");
    complete(request, "a reduction");
    at += now * bytes;
    left -= now;
  }
}

MpiCommunicator::Parts MpiCommunicator::parts(std::size_t mine, std::string_view label) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(info_.size));
  counts[static_cast<std::size_t>(info_.rank)] = static_cast<std::int64_t>(mine);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, counts.data(), 1, MPI_INT64_T, comm_, &request),
        "MPI_Iallgather", label);
  complete(request, label);
  Parts parts;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    parts.begin.push_back(static_cast<int>(total));
    parts.count.push_back(static_cast<int>(count));
    total += count;  // on all ranks, so that all throw if it is too long
    if (total > INT_MAX) fail("{} of {} elements is too long: at most {}; use several calls", label, total, INT_MAX);
  }
  parts.total = static_cast<std::size_t>(total);
  return parts;
}

std::vector<std::string> MpiCommunicator::allgather(const std::string& text) {
  const auto [count, begin, total] = parts(text.size(), "a gathering of texts");
  std::string all(total, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(text.data(), static_cast<int>(text.size()), MPI_CHAR, all.data(), count.data(), begin.data(),
                        MPI_CHAR, comm_, &request),
        "MPI_Iallgatherv");
  complete(request, "a gathering of texts");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < count.size(); ++r)
    texts.push_back(all.substr(static_cast<std::size_t>(begin[r]), static_cast<std::size_t>(count[r])));
  return texts;
}

std::vector<float> MpiCommunicator::gather(const std::vector<float>& mine, int root) {
  KEELSON_EXPECT(root >= 0 && root < info_.size);
  const auto [count, begin, total] = parts(mine.size(), "a gathering of numbers");
  std::vector<float> all(info_.rank == root ? total : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Igatherv(mine.data(), static_cast<int>(mine.size()), MPI_FLOAT, all.data(), count.data(), begin.data(),
                     MPI_FLOAT, root, comm_, &request),
        "MPI_Igatherv");
  complete(request, "a gathering of numbers");
  return all;
}

std::unique_ptr<Collective> MpiCommunicator::implement(const CollectiveDesc& desc) {
  const bool sums_floats =
      desc.kind == CollectiveDesc::Kind::allreduce && desc.element == CollectiveDesc::Element::f32 && desc.count > 0;
  if (survives_losses() && desc.wire != Wire::fp32)
    refuse("{}: numbers cannot be sent in 16 bits if ranks can be lost; start mpirun without --with-ft", desc.label);
  if (desc.order == SumOrder::tree) {
    if (survives_losses())
      refuse(
          "{}: sums in a fixed order (--reproducible) are not possible if ranks can be lost; start mpirun without "
          "--with-ft",
          desc.label);
    KEELSON_EXPECT(desc.kind == CollectiveDesc::Kind::allreduce &&
                   std::has_single_bit(static_cast<unsigned>(info_.size)));
    if (desc.element == CollectiveDesc::Element::f64)
      return std::make_unique<MpiCollective>(*this, desc, std::make_unique<GatheredSum>(comm_, desc));
  }
  // The other algorithms share memory and messages, and a rank that waits for a dead rank may still use these.
  if (!sums_floats || survives_losses()) return std::make_unique<MpiCollective>(*this, desc);
  const AllreduceAlgorithm algorithm = chooser().choose(desc.bytes(), desc.wire, desc.order);
  return std::make_unique<MpiCollective>(*this, desc, allreduces_->make(algorithm, desc));
}

AllreduceChooser& MpiCommunicator::chooser() {
  if (!chooser_) {
    barrier();  // under the watchdog, which does not watch the following calls
    allreduces_ = std::make_unique<Allreduces>(comm_);
    chooser_ = std::make_unique<AllreduceChooser>(*allreduces_);
  }
  return *chooser_;
}

int MpiCommunicator::message_number(const CollectiveDesc& desc) {
  const int number = messages_.take(desc), tags = highest_tag(comm_) - first_message_tag + 1;
  if (number < tags) return number;
  messages_.give_back(desc, number);
  fail("{}: this MPI has tags for {} messages alive between two ranks, and all are taken: destroy some first",
       desc.label, tags);
}

void MpiCommunicator::poll(std::string_view waiting_for, double seconds) {
  if (survives_losses() && ulfm::knows_of_loss(comm_))
    throw RanksLost(fmt::format("a rank was lost during the wait for {}", waiting_for));
  if (seconds < polled_at_) polled_ = {};  // this is another wait than last time
  polled_at_ = seconds;
  polled_.label = waiting_for;
  // This wait is not a call of the group. For ranks in the next call it counts as an earlier call.
  polled_.number = calls_;
  stall_detector_->poll(polled_, seconds);
}

namespace {

AllreduceChooser* chooser_of(Communicator& group) {
  if (group.survives_losses()) return nullptr;  // see implement()
  auto* mpi = dynamic_cast<MpiCommunicator*>(&group.on_host());
  return mpi ? &mpi->chooser() : nullptr;
}

}  // namespace

std::unique_ptr<Communicator> adopt(MPI_Comm comm, const WatchdogOptions& watchdog, int number,
                                    std::shared_ptr<MpiProgress> progress) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (size > 1) return std::make_unique<MpiCommunicator>(comm, watchdog, number, std::move(progress));
  MPI_Comm_free(&comm);
  return make_self();
}

}  // namespace keelson::comm::detail

namespace keelson::comm {

std::vector<AllreduceTime> time_allreduces(Communicator& group, std::size_t bytes, Wire wire) {
  auto* chooser = detail::chooser_of(group);
  return chooser ? chooser->measure(bytes, wire) : std::vector<AllreduceTime>{};
}

std::size_t choose_bucket_bytes(Communicator& group, Wire wire) {
  auto* chooser = detail::chooser_of(group);
  return chooser ? chooser->choose_bucket_bytes(wire) : std::size_t{8} << 20;
}

std::string allreduce_algorithm(Communicator& group, std::size_t bytes, Wire wire) {
  auto* chooser = detail::chooser_of(group);
  return chooser ? chooser->choose(bytes, wire).to_string() : "";
}

}  // namespace keelson::comm
