#include "engine/base/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace keelson {
namespace {

constexpr std::array<int, 3> signals{SIGTERM, SIGINT, SIGUSR1};

std::atomic<int> first{0};
std::atomic<bool> interrupted{false};  // by SIGINT
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

bool installed = false;
std::array<struct sigaction, signals.size()> before;

std::array<char, 512> notice;
std::size_t notice_length = 0;

// Calls only functions that are allowed in a signal handler.
void handle(int number) {
  const int error = errno;
  int none = 0;
  if (first.compare_exchange_strong(none, number) && notice_length > 0)
    (void)!::write(STDERR_FILENO, notice.data(), notice_length);
  errno = error;
  if (number != SIGINT || !interrupted.exchange(true)) return;
  signal(SIGINT, SIG_DFL);
  raise(SIGINT);  // delivered, with its default action, when the handler returns
}

}  // namespace

void Interrupt::install(const std::string& text) {
  if (installed) return;
  notice_length = text.copy(notice.data(), notice.size());
  struct sigaction action{};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before[i]);
  installed = true;
}

void Interrupt::uninstall() {
  if (!installed) return;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before[i], nullptr);
  installed = false;
  first = 0;
  interrupted = false;
}

int Interrupt::signal_number() { return first; }

std::string Interrupt::signal_name(int number) {
  switch (number) {
    case 0:
      return "";
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "signal " + std::to_string(number);
  }
}

}  // namespace keelson
