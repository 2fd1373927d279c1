#include "comm/mpi/ulfm.hpp"

#include <cstdlib>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "comm/mpi/support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail::ulfm {

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

bool enabled() {
  static const bool yes = [] {
    const char* variable = std::getenv("OMPI_MCA_mpi_ft_enable");  // mpirun sets it
    return variable != nullptr && *variable != '\0' && *variable != '0';
  }();
  return yes;
}

bool is_loss(int code) {
  if (code == MPI_SUCCESS || !enabled()) return false;
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED;
}

bool knows_of_loss(MPI_Comm comm) {
  int revoked = 0, dead = 0;
  MPIX_Comm_is_revoked(comm, &revoked);
  if (revoked) return true;
  MPI_Group group = MPI_GROUP_NULL;
  if (MPIX_Comm_get_failed(comm, &group) != MPI_SUCCESS) return true;
  MPI_Group_size(group, &dead);
  if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
  return dead > 0;
}

void revoke(MPI_Comm comm) { MPIX_Comm_revoke(comm); }

void acknowledge(MPI_Comm comm) {
  int size = 0, known = 0;
  MPI_Comm_size(comm, &size);
  MPIX_Comm_ack_failed(comm, size, &known);
}

int start_agreement(MPI_Comm comm, int* flag, MPI_Request* request) { return MPIX_Comm_iagree(comm, flag, request); }

MPI_Comm shrink(MPI_Comm comm) {
  constexpr int most = 10;  // more processes may die in the meantime
  for (int attempt = 1;; ++attempt) {
    MPI_Comm left = MPI_COMM_NULL;
    const int result = MPIX_Comm_shrink(comm, &left);
    if (result == MPI_SUCCESS) MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    // Open MPI 6.0.0rc2 crashes if a communicator is revoked before all processes have made it. So no process uses the
    // new communicator before all processes have it.
    int all_have_it = result == MPI_SUCCESS ? 1 : 0;
    const int agreed = MPIX_Comm_agree(comm, &all_have_it);
    if (!is_loss(agreed)) check(agreed, "MPIX_Comm_agree");  // the next call on `left` also reports losses
    if (all_have_it != 0) return left;
    if (attempt == most) check(result == MPI_SUCCESS ? MPI_ERR_OTHER : result, "MPIX_Comm_shrink");
    if (left != MPI_COMM_NULL) MPI_Comm_free(&left);
  }
}

#else

bool enabled() { return false; }
bool is_loss(int) { return false; }
bool knows_of_loss(MPI_Comm) { return false; }
void revoke(MPI_Comm) {}
void acknowledge(MPI_Comm) {}
int start_agreement(MPI_Comm, int*, MPI_Request*) { return MPI_ERR_OTHER; }
MPI_Comm shrink(MPI_Comm) { fail("this MPI cannot go on without a process"); }

#endif

}  // namespace keelson::comm::detail::ulfm
