#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/detail/mpi_communicator.hpp"

namespace keelson::comm::detail {

/// A non-blocking collective call on fixed memory, in pieces whose counts fit an int.
class MpiCollective : public Collective {
 public:
  MpiCollective(MpiCommunicator& owner, std::size_t pieces, std::string label);
  ~MpiCollective() override;
  MpiCollective(const MpiCollective&) = delete;

  void start() override;
  bool test() override;
  void wait() override;

 protected:
  virtual void start_piece(std::size_t i, MPI_Request& request) = 0;
  const std::string& label() const { return label_; }
  MPI_Comm comm() const { return owner_.comm_; }

 private:
  void finish();

  MpiCommunicator& owner_;
  std::string label_;
  std::vector<MPI_Request> requests_;  ///< one per piece
  std::size_t done_ = 0;               ///< pieces known to be done
  std::uint64_t number_ = 0;
  bool active_ = false;
};

class MpiAllreduce final : public MpiCollective {
 public:
  MpiAllreduce(MpiCommunicator& owner, void* data, std::size_t count, MPI_Datatype type, std::string label);

 private:
  void start_piece(std::size_t i, MPI_Request& request) override;
  char* data_;
  std::size_t count_, size_;  ///< elements, and bytes of one
  MPI_Datatype type_;
};

class MpiAllgather final : public MpiCollective {
 public:
  MpiAllgather(MpiCommunicator& owner, const void* mine, void* all, std::size_t bytes, std::string label);

 private:
  void start_piece(std::size_t i, MPI_Request& request) override;
  const void* mine_;
  void* all_;
  std::size_t bytes_;
};

}  // namespace keelson::comm::detail
