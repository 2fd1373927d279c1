#include "comm/allreduce/node_memory.hpp"

#include <cstring>
#include <new>

#include "comm/mpi/support.hpp"
#include "comm/watch/job_end.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::size_t alignment = 128;

std::byte* aligned(void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::byte*>(at) + (alignment - address % alignment) % alignment;
}

}  // namespace

NodeMemory::NodeMemory(MPI_Comm node, std::size_t slot_bytes, std::size_t slots)
    : slot_bytes_(slot_bytes), slots_(slots) {
  int size = 1;
  check(MPI_Comm_rank(node, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &size), "MPI_Comm_size");
  const std::size_t bytes = sizeof(Counters) + slot_bytes_ * slots_ + alignment;
  void* mine = nullptr;
  check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, node, &mine, &window_),
        "MPI_Win_allocate_shared");
  for (int r = 0; r < size; ++r) {
    MPI_Aint length = 0;
    int unit = 0;
    void* at = nullptr;
    check(MPI_Win_shared_query(window_, r, &length, &unit, static_cast<void*>(&at)), "MPI_Win_shared_query");
    bases_.push_back(static_cast<std::byte*>(at));
  }
  // Segments begin at pages, so that all processes have the same distance to the next multiple of `alignment`.
  for (std::byte*& base : bases_) base = aligned(base);
  new (bases_[static_cast<std::size_t>(rank_)]) Counters{};
  std::memset(slot(rank_, 0), 0, slot_bytes_ * slots_);  // the first write places the pages near this rank's cores
  check(MPI_Barrier(node), "MPI_Barrier", "memory of the node");
}

NodeMemory::~NodeMemory() {
  if (mpi_running() && !left_unfinished()) MPI_Win_free(&window_);
}

}  // namespace keelson::comm::detail
