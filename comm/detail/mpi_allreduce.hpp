#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/detail/mpi_communicator.hpp"

namespace keelson::comm::detail {

/// MPI_Iallreduce on fixed memory, in pieces whose counts fit an int.
class MpiAllreduce final : public Allreduce {
 public:
  MpiAllreduce(MpiCommunicator& owner, void* data, std::size_t count, MPI_Datatype type, std::string label);
  ~MpiAllreduce() override;
  MpiAllreduce(const MpiAllreduce&) = delete;

  void start() override;
  bool test() override;
  void wait() override;

 private:
  void finish();

  MpiCommunicator& owner_;
  char* data_;
  std::size_t count_;
  MPI_Datatype type_;
  std::string label_;
  std::vector<MPI_Request> requests_;  ///< one per piece
  std::size_t done_ = 0;               ///< pieces known to be done
  std::uint64_t number_ = 0;
  bool active_ = false;
};

}  // namespace keelson::comm::detail
