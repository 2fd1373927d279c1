#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/collective.hpp"
#include "engine/base/fault_tolerance.hpp"
#include "engine/base/progress_engine.hpp"
#include "engine/base/watchdog.hpp"

namespace keelson {

/// The operation that combines the values of the ranks.
enum class Reduction : std::uint8_t { sum, min, max };

/// This process as a member of a group of ranks.
struct RankInfo {
  int rank = 0;        ///< in the group, from 0
  int size = 1;        ///< ranks in the group
  int local_rank = 0;  ///< among the ranks of the group on the same node
  int local_size = 1;  ///< ranks of the group on the same node
  int node = 0;        ///< number of this rank's node; nodes are counted in the order of their lowest ranks
  int nodes = 1;       ///< nodes on which the group has ranks
  /// Names this process in messages: its rank when the job began, in the group of all ranks (MPI_COMM_WORLD, or the
  /// communicator given to comm::make_from_handle()). The number stays the same in parts of that group, and when ranks
  /// are lost.
  int number = 0;
  std::string host;  ///< name of this rank's machine
};

/// A group of ranks and its collectives. All ranks of the group make the collective calls in the same order. Errors of
/// the communication library (MPI, NCCL) throw Error with the library's text. The order of summation is fixed for a
/// given number of ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // ---- the group

  virtual const RankInfo& info() const = 0;                ///< of this process in the group
  int rank() const { return info().rank; }                 ///< as RankInfo::rank
  int size() const { return info().size; }                 ///< as RankInfo::size
  int local_rank() const { return info().local_rank; }     ///< as RankInfo::local_rank
  int local_size() const { return info().local_size; }     ///< as RankInfo::local_size
  int node() const { return info().node; }                 ///< as RankInfo::node
  int nodes() const { return info().nodes; }               ///< as RankInfo::nodes
  int number() const { return info().number; }             ///< as RankInfo::number
  const std::string& host() const { return info().host; }  ///< as RankInfo::host
  std::string name() const;                                ///< number and host: "3 (node7)"
  /// A group of the ranks that give the same color, numbered by their keys. Null on ranks that give a negative color.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // ---- collectives on host memory that return when they have ended

  /// Returns when all ranks have called barrier().
  virtual void barrier() = 0;
  /// Copies the bytes of `root` to all ranks.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// Reduces `count` numbers over the ranks, element by element and in place.
  void allreduce(double* data, std::size_t count, Reduction op) { reduce(data, Number::f64, count, op); }
  void allreduce(float* data, std::size_t count, Reduction op) { reduce(data, Number::f32, count, op); }  ///< the same
  void allreduce(std::int64_t* data, std::size_t count, Reduction op) {
    reduce(data, Number::s64, count, op);
  }  ///< the same
  /// The type of the elements of an allreduce.
  enum class Number : std::uint8_t { f32, f64, s64 };
  /// allreduce() of an array of any of these types.
  virtual void reduce(void* data, Number type, std::size_t count, Reduction op) = 0;
  /// The texts of all ranks, in rank order, on every rank.
  virtual std::vector<std::string> allgather(const std::string& text) = 0;
  /// The floats of all ranks in rank order, on root; an empty array on the others. Counts may differ.
  virtual std::vector<float> gather(const std::vector<float>& mine, int root) = 0;

  // ---- collectives on fixed arrays that can be started many times

  /// The arrays must stay at their addresses. Destroy a collective after it has ended, and before this group. Throws
  /// Error for a wrong `desc`: a peer that is no rank of this group, sums of bytes. Throws InputError if the order or
  /// the wire is not supported, for example SumOrder::tree with NCCL.
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc);

  /// The following functions make the most common collectives. An allreduce of floats:
  std::unique_ptr<Collective> make_allreduce(float* data, std::size_t count, const std::string& label);
  /// An allreduce of doubles.
  std::unique_ptr<Collective> make_allreduce(double* data, std::size_t count, const std::string& label);
  /// A broadcast.
  std::unique_ptr<Collective> make_broadcast(void* data, std::size_t bytes, int root, const std::string& label);
  /// A send.
  std::unique_ptr<Collective> make_send(const void* src, std::size_t bytes, int to, const std::string& label);
  /// A receive.
  std::unique_ptr<Collective> make_receive(void* dst, std::size_t bytes, int from, const std::string& label);

  /// The same ranks with collectives on host memory. Differs from this object if its collectives are on the memory of a
  /// device (comm::on_device).
  virtual Communicator& on_host() { return *this; }
  /// The transport of these collectives: "MPI", "NCCL 2.28.3"; empty: one rank, which sends nothing.
  virtual std::string transport() const { return ""; }

  // ---- other parts of the group

  virtual ProgressEngine& progress();                              ///< lets started collectives advance
  virtual Watchdog& watchdog();                                    ///< reports long waits for other ranks
  virtual FaultTolerance* fault_tolerance() { return nullptr; }    ///< null: the death of a rank ends the job
  bool survives_losses() { return fault_tolerance() != nullptr; }  ///< whether the others go on when a rank dies

 private:
  /// Makes a collective from a checked description whose peer is a rank.
  virtual std::unique_ptr<Collective> implement(const CollectiveDesc& desc) = 0;
};

}  // namespace keelson
