#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace keelson {

/// How the values of the ranks become one.
enum class Reduction : std::uint8_t { sum, min, max };

/// How the numbers of an allreduce of f32 travel between nodes. Sums are made in f32 all the same. In 16 bits, each
/// rank keeps what rounding takes away from the numbers that it sends, and adds it in the next call of the same
/// Collective (error feedback). All ranks get the same bits.
enum class Wire : std::uint8_t { fp32, bf16, fp16 };

/// In which order an allreduce adds the terms of the ranks.
enum class SumOrder : std::uint8_t {
  any,  ///< the fastest one; fixed for a given number of ranks
  /// A binary tree over the ranks: each two neighbours first, then each two neighbouring pairs, ((0 + 1) + (2 + 3)) +
  /// ... The number of ranks is a power of two. So the sum has the same bits as if one rank had added the terms of two
  /// neighbours before, and half as many ranks took part.
  tree
};

/// What a Collective does, with which arrays. Arrays of different roles do not overlap, but where one array has both.
///
/// | kind           | src                                     | dst                                      | peer     |
/// |----------------|-----------------------------------------|------------------------------------------|----------|
/// | allreduce      | count elements                          | the same array: the sums over ranks      |          |
/// | reduce_scatter | count elements for each rank, in order  | count elements: this rank's, summed      |          |
/// | allgather      | count elements                          | count elements of each rank, in order    |          |
/// | all_to_all     | count elements for each rank, in order  | count elements of each rank, in order    |          |
/// | broadcast      | count elements, read on the root alone  | the same array, written on all others    | root     |
/// | send           | count elements                          |                                          | receiver |
/// | receive        |                                         | count elements                           | sender   |
struct CollectiveDesc {
  /// See the table.
  enum class Kind : std::uint8_t { allreduce, reduce_scatter, allgather, all_to_all, broadcast, send, receive };
  /// What the arrays hold.
  enum class Element : std::uint8_t { byte, f32, f64 };  ///< sums are of f32 or f64; what only travels is bytes

  Kind kind = Kind::allreduce;      ///< what is done
  const void* src = nullptr;        ///< read
  void* dst = nullptr;              ///< written
  std::size_t count = 0;            ///< elements, as the table counts them
  Element element = Element::byte;  ///< their type
  int peer = 0;                     ///< a rank; of send and receive also negative: no rank
  std::string label;                ///< names the array in messages: "gradient bucket 3 (conv4/weights ... conv3/bias)"
  Wire wire = Wire::fp32;           ///< of an allreduce of f32
  SumOrder order = SumOrder::any;   ///< of an allreduce; SumOrder::tree: with Wire::fp32

  /// Whether elements of several ranks are added up.
  bool sums() const { return kind == Kind::allreduce || kind == Kind::reduce_scatter; }
  /// A send or a receive, in which two ranks take part; in all others all ranks of the group do.
  bool point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
  /// Bytes of one element.
  std::size_t element_bytes() const { return element == Element::byte ? 1 : element == Element::f32 ? 4 : 8; }
  std::size_t bytes() const { return count * element_bytes(); }  ///< of `count` elements
  /// Bytes that rank `rank` of `size` ranks reads from src.
  std::size_t src_bytes(int rank, int size) const;
  /// Bytes that rank `rank` of `size` ranks writes to dst.
  std::size_t dst_bytes(int rank, int size) const;
};

/// Communication between fixed arrays that can be started over and over. All ranks of the group make and start the same
/// collectives with the same counts in the same order. start, test and wait never allocate on our side.
///
/// Sends and receives are made and started only by their two ranks:
/// - Of the sends alive from rank a to rank b, the n-th made goes to the n-th receive alive that b made from a, with
///   as many bytes. Both ranks start them in this order.
/// - All may be started before the first wait, in any order of sends and receives: two ranks that both start their send
///   first do not block each other. But the wait for a send may last until the peer has started its receive.
/// - A send and its receive are started between the same two collectives of the group.
/// - A negative peer is no rank, for example the neighbour beyond the edge of a grid: start and wait do nothing.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Returns at once; the arrays must stay as they are until wait() returns or test() says true.
  virtual void start() = 0;
  virtual bool test() = 0;  ///< true when done (or never started); also drives progress
  virtual void wait() = 0;  ///< reports by name what it waits for when the watchdog's time passes
};

/// The ranks that Communicator::shrink() has left out.
struct LostRanks {
  std::vector<int> ranks;          ///< Communicator::number() of each, ascending
  std::vector<std::string> hosts;  ///< of each of them
};

/// A group of ranks: the only thing that knows MPI (or NCCL). Collective calls are made by all ranks of the group in
/// the same order. Errors of the library throw Error with its text. Summation order is fixed for a given number of
/// ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Of this process in the group, from 0.
  virtual int rank() const = 0;
  /// Number of ranks in the group.
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  ///< among the ranks of this group on the same node
  /// Ranks of this group on the same node.
  virtual int local_size() const = 0;
  virtual int node() const = 0;   ///< number of this rank's node, counted in order of lowest rank
  virtual int nodes() const = 0;  ///< nodes on which this group has ranks
  /// Name of this rank's machine.
  virtual std::string host() const = 0;
  /// This process as messages name it: its rank when the job began, in the group of all (MPI_COMM_WORLD, or what
  /// comm::make_from_handle() was given). The number stays when ranks are lost, and in parts of that group.
  virtual int number() const { return rank(); }
  /// "3 (node7)": number() and host().
  std::string name() const;
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;  ///< color < 0: this rank gets null

  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// Copies the bytes of `root` to all ranks.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(double* data, std::size_t count, Reduction op) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(std::int64_t* data, std::size_t count, Reduction op) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(float* data, std::size_t count, Reduction op) = 0;
  /// Every rank's text, on every rank, in rank order.
  virtual std::vector<std::string> allgather(const std::string& text) = 0;
  /// Concatenation in rank order of every rank's floats, on root (empty elsewhere); counts may differ.
  virtual std::vector<float> gather(const std::vector<float>& mine, int root) = 0;

  /// The arrays must stay where they are. Destroy a collective when it is not under way, and before this group. Throws
  /// Error where `desc` cannot be: a peer that is no rank of this group, sums of bytes. Throws InputError where the
  /// order or the wire cannot be had: SumOrder::tree with NCCL, say.
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc);

  /// make_collective() in short, with the arguments that each kind has; see CollectiveDesc. Here the sum of floats.
  std::unique_ptr<Collective> make_allreduce(float* data, std::size_t count, const std::string& label);
  /// The sum of doubles.
  std::unique_ptr<Collective> make_allreduce(double* data, std::size_t count, const std::string& label);
  /// The sum of floats, of which each rank gets its part.
  std::unique_ptr<Collective> make_reduce_scatter(const float* src, float* dst, std::size_t count_per_rank,
                                                  const std::string& label);
  /// The bytes of all ranks, in rank order.
  std::unique_ptr<Collective> make_allgather(const void* src, void* dst, std::size_t bytes_per_rank,
                                             const std::string& label);
  /// Bytes from every rank to every rank.
  std::unique_ptr<Collective> make_all_to_all(const void* src, void* dst, std::size_t bytes_per_pair,
                                              const std::string& label);
  /// Bytes of the root, to all.
  std::unique_ptr<Collective> make_broadcast(void* data, std::size_t bytes, int root, const std::string& label);
  /// Bytes to one rank, which receives them.
  std::unique_ptr<Collective> make_send(const void* src, std::size_t bytes, int to, const std::string& label);
  /// Bytes from one rank, which sends them.
  std::unique_ptr<Collective> make_receive(void* dst, std::size_t bytes, int from, const std::string& label);

  /// The same ranks with collectives on arrays in host memory, where those above are on arrays in a device's.
  virtual Communicator& on_host() { return *this; }
  /// Lets started reductions advance; cheap when none is under way. Called between the calls of a step.
  virtual void progress() = 0;
  /// Wants that a thread beside does what progress() does, between lend() and reclaim(). `cpus`: where the thread runs;
  /// empty: where this one may. False: there is no such thread, since MPI does not let another thread than this call
  /// it (MPI_THREAD_SERIALIZED), since ranks may be lost, or since there are no other ranks.
  virtual bool use_progress_thread(bool wanted, const std::vector<int>& cpus) {
    return (void)wanted, (void)cpus, false;
  }
  /// Lets that thread work until reclaim(). Meanwhile no other call of any group is made. False: there is nothing to
  /// advance, or no such thread; then call progress() now and then.
  virtual bool lend() { return false; }
  /// Ends this. Throws what progress() throws.
  virtual void reclaim() {}
  /// For a host that waits, by polling, for a device whose work may in turn wait for other ranks: called between two
  /// polls, `seconds` after the first, it lets the watchdog report what is waited for ("the loss of step 12"), and
  /// throws Error where the exchange is known to have failed.
  virtual void poll(std::string_view waiting_for, double seconds) { (void)waiting_for, (void)seconds; }
  /// How the arrays of collectives travel: "MPI", "NCCL 2.28.3"; empty: they do not.
  virtual std::string collectives() const { return ""; }

  /// Whether ranks that are left can go on without ranks that died. Then calls of a group of which a rank has died
  /// throw RanksLost, on some of the ranks or on all, and agree() tells all ranks alike. Else the death of a rank ends
  /// the job.
  virtual bool survives_losses() const { return false; }
  /// Whether all ranks of the group are alive and have said `good`: the same answer on all ranks that are left. Returns
  /// when each rank has called it or has died. After the answer false the group and its parts are broken: their
  /// collectives can be destroyed, though they were under way, and all calls but shrink() throw RanksLost. Throws
  /// RanksLost only where the group does not survive losses.
  virtual bool agree(bool good);
  /// As agree(true), for a rank that has nothing to do until the others call agree(), however long that takes: the
  /// watchdog does not watch this wait, which leaves the core to others.
  virtual bool stand_by() { return agree(true); }
  /// Makes this a group of the ranks that are left, in their old order, and returns the others. All ranks that are left
  /// call it, after agree() has returned false. Collectives and parts (split()) of the group before are of no use:
  /// destroy collectives on a device's memory before the call, and make all anew. Throws RanksLost where more ranks die
  /// meanwhile: then agree(false) and shrink() again. Throws Error where the group does not survive losses.
  virtual LostRanks shrink();

  /// Ends every rank of the job with this exit code, now.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 private:
  /// `desc` is checked, and its peer is a rank.
  virtual std::unique_ptr<Collective> implement(const CollectiveDesc& desc) = 0;
};

}  // namespace keelson
