#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/on_device.hpp"
#include "comm/placement.hpp"
#include "engine/base/error.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

struct Process {
  std::mutex mutex;
  std::atomic<bool> ending = false;
  std::vector<Closable*> open;
  std::optional<comm::MpiSession> mpi;         ///< set if world() has started MPI
  std::weak_ptr<Ranks> world;                  ///< all ranks, while an object refers to them
  std::shared_ptr<backends::Runtime> runtime;  ///< kept, since Kokkos cannot start twice
  int threads = 0;                             ///< threads of the runtime
};

/// Never destroyed: Python may drop objects after the end of static objects.
Process& process() {
  static auto* const p = new Process;
  return *p;
}

/// Chooses the cores on which this process computes, as the programs do, and starts the device's runtime there.
std::shared_ptr<backends::Runtime> start_runtime(int threads, Communicator* ranks) {
  Process& p = process();
  if (threads < 0) refuse("threads is {}. Expected at least 1, or 0 for this process' share of the cores", threads);
  if (p.runtime) {
    if (threads != 0 && threads != p.threads)
      refuse(
          "threads is {}, but this process has computed with {} since its first Context. Give the number when you make "
          "the first Context",
          threads, p.threads);
    return p.runtime;
  }
  const auto alone = ranks ? nullptr : comm::make_self();
  Communicator& group = ranks ? *ranks : *alone;
  auto facts = comm::placement_facts(group);
  if (threads > 0) {
    facts.threads_wanted = threads;
    facts.threads_wanted_by = "threads";
  }
  const auto placement = comm::decide_placement(facts);
  comm::bind(placement);
  p.threads = placement.threads;
  p.runtime = std::make_shared<backends::Runtime>(placement.threads, group.local_rank());
  return p.runtime;
}

}  // namespace

Closable::Closable(Stage stage) : stage_(stage) {
  const std::lock_guard lock(process().mutex);
  process().open.push_back(this);
}

Closable::~Closable() {
  const std::lock_guard lock(process().mutex);
  std::erase(process().open, this);
}

void shut_down(int exit_code, const std::string& message) {
  Process& p = process();
  p.ending = true;
  if (p.mpi && !p.mpi->conclude({.exit_code = exit_code, .message = message})) p.mpi->abort(exit_code);
  for (const auto stage : {Closable::Stage::work, Closable::Stage::context, Closable::Stage::communicator}) {
    // Looks again each time, since an object that closes may drop the last reference to another one.
    const auto next = [&]() -> Closable* {
      const std::lock_guard lock(p.mutex);
      const auto found =
          std::ranges::find_if(p.open, [&](const Closable* c) { return c->stage_ == stage && !c->closed_at_end_; });
      if (found == p.open.end()) return nullptr;
      (*found)->closed_at_end_ = true;
      return *found;
    };
    while (Closable* const c = next()) c->close();
  }
  p.mpi.reset();
  p.runtime.reset();
}

bool is_ending() { return process().ending; }

Communicator& Ranks::get() const {
  if (!communicator) fail("this communicator was closed");
  return *communicator;
}

std::shared_ptr<Ranks> world() {
  Process& p = process();
  if (auto known = p.world.lock(); known && known->communicator) return known;
  if (!p.mpi) p.mpi.emplace();
  auto ranks = std::make_shared<Ranks>(comm::make_world());
  p.world = ranks;
  return ranks;
}

std::shared_ptr<Ranks> ranks_of(nb::handle comm) {
  if (comm.is_none()) return nullptr;
  if (std::shared_ptr<Ranks> ranks; nb::try_cast(comm, ranks)) return ranks;
  if (!nb::hasattr(comm, "py2f"))
    refuse("comm is a {}. Expected None, keelson.world(), or a communicator of mpi4py such as mpi4py.MPI.COMM_WORLD",
           nb::type_name(comm.type()).c_str());
  const int handle = nb::cast<int>(comm.attr("py2f")());
  const nb::gil_scoped_release release;
  return std::make_shared<Ranks>(comm::make_from_handle(handle));
}

Communicator* communicator_of(const std::shared_ptr<Ranks>& ranks) { return ranks ? &ranks->get() : nullptr; }

ContextObject::ContextObject(const std::string& device, const std::string& backends, int threads,
                             std::shared_ptr<Ranks> r)
    : Closable(Stage::context),
      runtime(start_runtime(threads, communicator_of(r))),
      ranks(std::move(r)),
      context(backends::make_context(device, backends)) {
  if (ranks) on_device = comm::on_device(ranks->get(), context->device());
}

/// Keeps the context, since objects may still have memory of its device.
void ContextObject::close() { on_device.reset(); }

Context& ContextObject::get() const { return *context; }

void bind_communicator(nb::module_& m) {
  nb::class_<Ranks>(m, "Communicator", "A group of ranks (processes) that compute together. world() makes one.")
      .def_prop_ro(
          "rank", [](const Ranks& r) { return r.get().rank(); }, "This process' number in the group, from 0.")
      .def_prop_ro(
          "size", [](const Ranks& r) { return r.get().size(); }, "Number of ranks in the group.")
      .def_prop_ro(
          "host", [](const Ranks& r) { return r.get().host(); }, "Name of this rank's machine.")
      .def(
          "barrier", [](const Ranks& r) { r.get().barrier(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Returns when all ranks have called it.")
      .def(
          "allgather", [](const Ranks& r, const std::string& text) { return r.get().allgather(text); }, nb::arg("text"),
          nb::call_guard<nb::gil_scoped_release>(), "Every rank's text, on every rank, in rank order. Collective.")
      .def("__repr__", [](const Ranks& r) {
        return r.communicator ? fmt::format("<keelson.Communicator: rank {} of {}>", r.get().rank(), r.get().size())
                              : std::string("<keelson.Communicator: closed>");
      });
  m.def("world", &world, nb::call_guard<nb::gil_scoped_release>(),
        "All ranks of the job that mpirun or srun has started; one rank without a launcher. Starts MPI if it has\n"
        "not been started. Scripts that use mpi4py pass its communicators instead.");
  m.def("_communicator", &ranks_of, nb::arg("comm").none());
}

void bind_context(nb::module_& m) {
  nb::class_<ContextObject>(
      m, "Context",
      "A device of this process and the ranks that compute with it.\n\n"
      "device: 'auto' (the device for which this build is made), 'cpu' or 'cuda'.\n"
      "backends: names separated by commas, such as 'kokkos', in the order of preference; '': all.\n"
      "threads: threads of this process; 0: its share of the cores. All contexts of a process have the same number.\n"
      "comm: the ranks that train together: None (only this process), keelson.world(), or a\n"
      "communicator of mpi4py. Then making a context is collective.")
      .def(
          "__init__",
          [](ContextObject* self, const std::string& device, const std::string& backends, int threads,
             nb::handle comm) {
            auto ranks = ranks_of(comm);
            const nb::gil_scoped_release release;
            new (self) ContextObject(device, backends, threads, std::move(ranks));
          },
          nb::arg("device") = "auto", nb::kw_only(), nb::arg("backends") = "", nb::arg("threads") = 0,
          nb::arg("comm") = nb::none())
      .def_prop_ro(
          "comm", [](const ContextObject& d) { return d.ranks; }, "The ranks as given; None: only this process.")
      .def_prop_ro(
          "threads", [](const ContextObject& d) { return d.get().device().current_instance().concurrency(); },
          "Threads of the device.")
      .def_prop_ro(
          "memory",
          [](const ContextObject& d) {
            const auto memory = d.get().device().memory();
            nb::dict sizes;
            sizes["total"] = memory.total;
            sizes["available"] = memory.available;
            sizes["used"] = memory.used;
            return sizes;
          },
          nb::sig("def memory(self) -> dict[str, int]"),
          "Bytes of the device: 'total' (0: unknown), 'available', and 'used' by this process.")
      .def(
          "require_exact_convolutions",
          [](const ContextObject& d, bool wanted) { d.get().require_exact_convolutions(wanted); },
          nb::arg("wanted") = true,
          "Whether plans that are made from now on compute convolutions by their definition. If False, Winograd's\n"
          "algorithms, which need fewer multiplications, are used where they are faster.")
      .def(
          "limit_memory", [](const ContextObject& d, std::size_t bytes) { d.get().device().limit_memory(bytes); },
          nb::arg("bytes"), "Limits the device's memory that this process uses, in bytes.")
      .def("__repr__", [](const ContextObject& d) { return fmt::format("<keelson.Context: {}>", d.get().describe()); });
  m.def("backends", &backends::available, "Names of the backends in this build, in the order of preference.");
}

}  // namespace keelson::python
