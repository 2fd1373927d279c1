#include "engine/base/trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fstream>
#include <functional>

#include "engine/base/atomic_file.hpp"
#include "engine/base/detail/trace_json.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace fs = std::filesystem;
namespace {

constexpr const char* label = "the events of the trace";

void require_writable(const fs::path& path) {
  if (path.empty() || !path.has_filename() || fs::is_directory(path))
    refuse("--trace {}: is not the name of a file; expected a name, e.g. trace.json", path.string());
  const AtomicFile probe(path, Target::output);  // removes the file that the next lines make
  errno = 0;
  if (!std::ofstream(probe.temporary()))
    refuse("--trace {}: cannot be written{}; choose a folder that exists and can be written", path.string(),
           reason_of_writing(errno, probe.temporary().parent_path()));
}

/// Names the threads of this process in the trace from the first event on.
std::size_t named(std::size_t capacity) {
  name_thread_in_traces("main");
  return capacity;
}

void write(const fs::path& path, const std::function<void(std::ofstream&)>& content) {
  AtomicFile file(path, Target::output);
  errno = 0;
  std::ofstream out(file.temporary(), std::ios::binary);
  content(out);
  out.close();
  if (!out)
    fail("cannot write the trace {}{}", path.string(), reason_of_writing(errno, file.temporary().parent_path()));
  file.commit();
}

/// A text of any length.
void send_text(Communicator& ranks, const std::string& text) {
  std::int64_t bytes = static_cast<std::int64_t>(text.size());
  const auto length = ranks.make_send(&bytes, sizeof bytes, 0, label);
  length->start();
  length->wait();
  const auto body = ranks.make_send(text.data(), text.size(), 0, label);
  body->start();
  body->wait();
}

std::string receive_text(Communicator& ranks, int from) {
  std::int64_t bytes = 0;
  const auto length = ranks.make_receive(&bytes, sizeof bytes, from, label);
  length->start();
  length->wait();
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const auto body = ranks.make_receive(text.data(), text.size(), from, label);
  body->start();
  body->wait();
  return text;
}

}  // namespace

std::int64_t TraceFile::default_events(int ranks) { return std::clamp<std::int64_t>(4'000'000 / ranks, 2000, 250'000); }

TraceFile::TraceFile(fs::path path, Communicator& ranks, std::int64_t events)
    : path_(std::move(path)),
      ranks_(ranks.on_host()),
      host_(ranks.host()),
      recorder_(named(static_cast<std::size_t>(events > 0 ? events : default_events(ranks.size())))) {
  on_first_rank(&ranks_, [&] { require_writable(path_); });
  first_ = compare_clocks(ranks_);
  begin_ = first_.at + first_.offset;
  ranks_.allreduce(&begin_, 1, Reduction::min);
}

TraceFile::~TraceFile() {
  if (finished_) return;
  recorder_.stop();
  try {
    const int rank = ranks_.rank();
    if (AtomicFile(path_, Target::output).special()) return;  // nobody may read a pipe of a run that has failed
    const fs::path own = rank == 0 ? path_ : fs::path(path_.string() + fmt::format(".rank-{}", ranks_.number()));
    const detail::RankOfTrace r{ranks_.number(), host_, first_, first_, begin_};
    write(own, [&](std::ofstream& out) {
      out << detail::trace_head << detail::render_events(recorder_, r)
          << detail::trace_tail({detail::render_rank(recorder_, r)}, recorder_.capacity(), false);
    });
  } catch (const std::exception&) {
  }
}

void TraceFile::finish() {
  recorder_.stop();
  const detail::RankOfTrace r{ranks_.number(), host_, first_, compare_clocks(ranks_), begin_};
  finished_ = true;
  const std::string text = detail::render_events(recorder_, r);
  const auto about_ranks = ranks_.allgather(detail::render_rank(recorder_, r));
  if (ranks_.rank() != 0) send_text(ranks_, text);
  on_first_rank(&ranks_, [&] {
    write(path_, [&](std::ofstream& out) {
      out << detail::trace_head << text;
      for (int from = 1; from < ranks_.size(); ++from)
        out << ",\n" << receive_text(ranks_, from);  // receives all texts, also if the disk is full
      out << detail::trace_tail(about_ranks, recorder_.capacity(), true);
    });
  });
}

}  // namespace keelson
