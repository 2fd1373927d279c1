#include "comm/detail/mpi_communicator.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <map>
#include <numeric>

#include "comm/detail/call_limit.hpp"
#include "comm/detail/gathered_sum.hpp"
#include "comm/detail/job_end.hpp"
#include "comm/detail/mpi_collective.hpp"
#include "comm/detail/mpi_support.hpp"
#include "comm/detail/ulfm.hpp"
#include "engine/base/detail/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::string_view broadcast_label = "a broadcast";

MPI_Op mpi_op(Reduction op) {
  switch (op) {
    case Reduction::min:
      return MPI_MIN;
    case Reduction::max:
      return MPI_MAX;
    case Reduction::sum:
      break;
  }
  return MPI_SUM;
}

/// Places of pieces of these lengths one after the other, and their total. MPI 3.1 counts in int.
std::vector<int> offsets(const std::vector<std::int64_t>& lengths, const char* what) {
  std::vector<int> at(lengths.size() + 1, 0);
  std::int64_t total = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    total += lengths[r];
    if (total > INT_MAX) fail("cannot gather more than {} {} at once; use several calls", INT_MAX, what);
    at[r + 1] = static_cast<int>(total);
  }
  return at;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const Watchdog& watchdog, int number) : comm_(comm) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  find_nodes();
  members_ = gather_members(comm_, number < 0 ? rank_ : number);
  stall_detector_ = std::make_unique<StallDetector>(comm_, names_of(members_), watchdog);
}

MpiCommunicator::~MpiCommunicator() {
  progress_thread_.reset();
  if (parent_ != nullptr) std::erase(parent_->parts_, this);
  for (MpiCommunicator* part : parts_) part->parent_ = nullptr;
  chooser_.reset();
  allreduces_.reset();
  stall_detector_.reset();
  if (mpi_running() && !left_unfinished()) MPI_Comm_free(&comm_);
}

void MpiCommunicator::find_nodes() {
  MPI_Comm local = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
  int lowest = rank_;  // of the node
  check(MPI_Bcast(&lowest, 1, MPI_INT, 0, local), "MPI_Bcast", "nodes");
  MPI_Comm_free(&local);
  nodes_of_.resize(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&lowest, 1, MPI_INT, nodes_of_.data(), 1, MPI_INT, comm_), "MPI_Allgather", "nodes");
  count_nodes();
}

/// Numbers the nodes in the order of their lowest ranks, whatever numbers they have, and finds this rank's place.
void MpiCommunicator::count_nodes() {
  std::map<int, int> numbers;
  for (int& node : nodes_of_) node = numbers.try_emplace(node, static_cast<int>(numbers.size())).first->second;
  nodes_ = static_cast<int>(numbers.size());
  const auto mine = nodes_of_.begin() + rank_;
  node_ = *mine;
  local_rank_ = static_cast<int>(std::count(nodes_of_.begin(), mine, node_));
  local_size_ = static_cast<int>(std::count(nodes_of_.begin(), nodes_of_.end(), node_));
}

void MpiCommunicator::complete(std::span<MPI_Request> requests, Wait wait) {
  Backoff backoff;
  for (MPI_Request& request : requests) {
    for (;;) {
      int done = 0;
      const int result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (ulfm::is_loss(result)) revoke();  // those who wait for ranks that are alive learn it, too
      check(result, "a collective call", wait.label);
      if (done) break;
      UnderWay::advance();
      if (const double seconds = backoff(); seconds >= Backoff::late) stall_detector_->poll(wait, seconds);
    }
  }
}

void MpiCommunicator::complete(MPI_Request request, std::string_view label) {
  complete({&request, 1}, {.number = ++calls_, .label = label, .for_first_rank = label == broadcast_label});
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  barrier();  // under the watchdog, which cannot see into what follows
  const CallLimit limit("the making of a group of ranks", stall_detector_->watchdog().abort_seconds, watchdog_advice);
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
  if (survives_losses()) barrier();  // Open MPI 6.0.0rc2 crashes where a part is revoked that is still in the making
  if (part == MPI_COMM_NULL) return nullptr;
  auto group = adopt(part, stall_detector_->watchdog(), number());
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
  KEELSON_EXPECT(root >= 0 && root < size_);
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

void MpiCommunicator::allreduce(void* data, std::size_t count, MPI_Datatype type, Reduction op) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  auto* at = static_cast<char*>(data);
  for (std::size_t left = count; left > 0;) {
    const std::size_t now = std::min(left, piece);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(MPI_IN_PLACE, at, static_cast<int>(now), type, mpi_op(op), comm_, &request), "MPI_Iallreduce");
    complete(request, "a reduction");
    at += now * static_cast<std::size_t>(bytes);
    left -= now;
  }
}

void MpiCommunicator::allreduce(double* data, std::size_t count, Reduction op) {
  allreduce(data, count, MPI_DOUBLE, op);
}
void MpiCommunicator::allreduce(std::int64_t* data, std::size_t count, Reduction op) {
  allreduce(data, count, MPI_INT64_T, op);
}
void MpiCommunicator::allreduce(float* data, std::size_t count, Reduction op) { allreduce(data, count, MPI_FLOAT, op); }

std::vector<std::int64_t> MpiCommunicator::lengths(std::int64_t mine, std::string_view label) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm_, &request), "MPI_Iallgather", label);
  complete(request, label);
  return all;
}

std::vector<std::string> MpiCommunicator::allgather(const std::string& text) {
  const auto length = lengths(static_cast<std::int64_t>(text.size()), "a gathering of texts");
  const auto at = offsets(length, "characters");
  const std::vector<int> count(length.begin(), length.end());
  std::string all(static_cast<std::size_t>(at.back()), '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(text.data(), static_cast<int>(text.size()), MPI_CHAR, all.data(), count.data(), at.data(),
                        MPI_CHAR, comm_, &request),
        "MPI_Iallgatherv");
  complete(request, "a gathering of texts");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < count.size(); ++r)
    texts.push_back(all.substr(static_cast<std::size_t>(at[r]), static_cast<std::size_t>(count[r])));
  return texts;
}

std::vector<float> MpiCommunicator::gather(const std::vector<float>& mine, int root) {
  KEELSON_EXPECT(root >= 0 && root < size_);
  const auto length = lengths(static_cast<std::int64_t>(mine.size()), "a gathering of numbers");
  const auto at = offsets(length, "numbers");  // on all ranks, so that all refuse what is too long
  const std::vector<int> count(length.begin(), length.end());
  std::vector<float> all(rank_ == root ? static_cast<std::size_t>(at.back()) : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Igatherv(mine.data(), static_cast<int>(mine.size()), MPI_FLOAT, all.data(), count.data(), at.data(),
                     MPI_FLOAT, root, comm_, &request),
        "MPI_Igatherv");
  complete(request, "a gathering of numbers");
  return all;
}

std::unique_ptr<Collective> MpiCommunicator::implement(const CollectiveDesc& desc) {
  const bool sums_floats =
      desc.kind == CollectiveDesc::Kind::allreduce && desc.element == CollectiveDesc::Element::f32 && desc.count > 0;
  if (survives_losses() && desc.wire != Wire::fp32)
    refuse("{}: numbers cannot travel in 16 bits where ranks can be lost; start mpirun without --with-ft", desc.label);
  if (desc.order == SumOrder::tree) {
    if (survives_losses())
      refuse(
          "{}: sums in a fixed order (--reproducible) cannot be had where ranks can be lost; start mpirun without "
          "--with-ft",
          desc.label);
    KEELSON_EXPECT(desc.kind == CollectiveDesc::Kind::allreduce && std::has_single_bit(static_cast<unsigned>(size_)));
    if (desc.element == CollectiveDesc::Element::f64)
      return std::make_unique<MpiCollective>(*this, desc, std::make_unique<GatheredSum>(comm_, desc));
  }
  // The others share memory and messages that nobody could take away from a rank that waits for a dead one.
  if (!sums_floats || survives_losses()) return std::make_unique<MpiCollective>(*this, desc);
  const AllreduceAlgorithm algorithm = chooser().choose(desc.bytes(), desc.wire, desc.order);
  return std::make_unique<MpiCollective>(*this, desc, allreduces_->make(algorithm, desc));
}

AllreduceChooser& MpiCommunicator::chooser() {
  if (!chooser_) {
    barrier();  // under the watchdog, which cannot see into the calls that follow
    allreduces_ = std::make_unique<Allreduces>(comm_);
    chooser_ = std::make_unique<AllreduceChooser>(*allreduces_);
  }
  return *chooser_;
}

int MpiCommunicator::message_number(const CollectiveDesc& desc) {
  int* most = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&most), &found), "MPI_Comm_get_attr", "MPI_TAG_UB");
  const int number = messages_.take(desc);
  const int tags = (found ? *most : 32767) - first_message_tag + 1;
  if (number < tags) return number;
  messages_.give_back(desc, number);
  fail("{}: this MPI has tags for {} messages alive between two ranks, and all are taken: destroy some first",
       desc.label, tags);
}

void MpiCommunicator::progress() {
  UnderWay::advance();
  // Testing one request of MPI drives all: MPI's progress is that of the process.
  if (!active_.empty()) active_.front()->test();
}

bool MpiCommunicator::use_progress_thread(bool wanted, const std::vector<int>& cpus) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const bool can = level >= MPI_THREAD_SERIALIZED && !survives_losses();
  if (!wanted || !can)
    progress_thread_.reset();
  else if (!progress_thread_)
    progress_thread_ = std::make_unique<ProgressThread>([this] { progress(); }, cpus);
  return can;
}

bool MpiCommunicator::lend() {
  if (!progress_thread_ || active_.empty()) return false;
  progress_thread_->lend();
  return true;
}

void MpiCommunicator::reclaim() {
  if (progress_thread_) progress_thread_->reclaim();
}

void MpiCommunicator::poll(std::string_view waiting_for, double seconds) {
  if (survives_losses() && ulfm::knows_of_loss(comm_))
    throw RanksLost(fmt::format("a rank was lost during the wait for {}", waiting_for));
  if (seconds < polled_) polling_ = {};  // another wait than last time
  polled_ = seconds;
  polling_.label = waiting_for;
  // Not a call that others could wait for too: seen from those who are in the next call, one that came before it.
  polling_.number = calls_;
  stall_detector_->poll(polling_, seconds);
}

void MpiCommunicator::abort(int exit_code) { end_job(exit_code); }

namespace {

AllreduceChooser* chooser_of(Communicator& group) {
  if (group.survives_losses()) return nullptr;  // see implement()
  auto* mpi = dynamic_cast<MpiCommunicator*>(&group.on_host());
  return mpi ? &mpi->chooser() : nullptr;
}

}  // namespace

std::unique_ptr<Communicator> adopt(MPI_Comm comm, const Watchdog& watchdog, int number) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (size > 1) return std::make_unique<MpiCommunicator>(comm, watchdog, number);
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
