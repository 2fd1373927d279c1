#include "comm/mpi/progress.hpp"

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "comm/mpi/collective.hpp"
#include "comm/mpi/ulfm.hpp"

namespace keelson::comm::detail {
namespace {

std::vector<MpiCollective*> active;  // NOLINT(cert-err58-cpp)
std::size_t room = 0;

}  // namespace

void ActiveCollectives::reserve(int more) {
  room = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(room) + more);
  active.reserve(room);
}

void ActiveCollectives::add(MpiCollective& collective) { active.push_back(&collective); }

void ActiveCollectives::remove(MpiCollective& collective) { std::erase(active, &collective); }

bool ActiveCollectives::empty() { return active.empty(); }

void ActiveCollectives::advance() {
  for (MpiCollective* c : active) c->drive();
}

void ActiveCollectives::test_oldest() {
  if (!active.empty()) active.front()->test();
}

void ActiveCollectives::abandon(const MpiCommunicator& group) {
  for (std::size_t i = active.size(); i-- > 0;)  // from the end, since each removes itself
    if (&active[i]->owner() == &group) active[i]->abandon();
}

void MpiProgress::advance() {
  ActiveCollectives::advance();
  ActiveCollectives::test_oldest();
}

bool MpiProgress::use_thread(bool wanted, const std::vector<int>& cpus) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const bool can = level >= MPI_THREAD_SERIALIZED && !ulfm::enabled();
  if (!wanted || !can)
    thread_.reset();
  else if (!thread_)
    thread_ = std::make_unique<ProgressThread>([this] { advance(); }, cpus);
  return can;
}

bool MpiProgress::resume_thread() {
  if (!thread_ || ActiveCollectives::empty()) return false;
  thread_->resume();
  return true;
}

void MpiProgress::pause_thread() {
  if (thread_) thread_->pause();
}

}  // namespace keelson::comm::detail
