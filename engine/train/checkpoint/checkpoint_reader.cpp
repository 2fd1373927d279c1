#include "engine/train/checkpoint/checkpoint_reader.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/graph/topology.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/detail/checkpoint_layout.hpp"
#include "engine/train/checkpoint/detail/valid_state.hpp"

namespace keelson {
namespace fs = std::filesystem;
using namespace detail;
namespace {

std::vector<std::string> texts(const hdf5::File& file, const std::string& object, const std::string& name) {
  return file.has_attribute(object, name) ? file.texts_attribute(object, name) : std::vector<std::string>();
}

void read_field(const hdf5::File& f, const char* name, std::string& v) { v = f.text_attribute("/", name); }
void read_field(const hdf5::File& f, const char* name, std::vector<double>& v) {
  v = f.has_attribute("/", name) ? f.numbers_attribute<double>("/", name) : std::vector<double>();
}
template <class T>
void read_field(const hdf5::File& f, const char* name, T& v) {
  v = f.attribute<T>("/", name);
}

RunState read_state(const hdf5::File& file) {
  if (!file.has_attribute("/", "format") || file.text_attribute("/", "format") != "keelson checkpoint")
    refuse("{}: is no checkpoint of Keelson (attribute 'format' of / is missing)", file.path());
  if (const auto version = file.attribute<int>("/", "format_version"); version != checkpoint_format)
    refuse("{}: checkpoint format {}, but this program reads {}: use the version of Keelson that wrote it ({})",
           file.path(), version, checkpoint_format, file.text_attribute("/", "keelson_version"));
  RunState s;
  const auto read = [&](const char* name, auto& field) { read_field(file, name, field); };
  visit_fields(s, read);
  if (file.has_attribute("/", "part_step")) visit_part(s, read);
  if (file.has_attribute("/", "epoch_samples")) visit_epoch(s, read);
  auto observed = texts(file, "/", "observed_names");
  // Older checkpoints of this format have no such list, and always these two.
  if (observed.empty() && file.has_attribute("/", "target_samples")) observed = {"target_samples", "target_sum"};
  for (const auto& name : observed) {
    require_own_name(name, file.path());
    read_field(file, name.c_str(), s.observed[name]);
  }
  for (const auto& key : texts(file, "/", "config_keys")) s.config[key] = file.text_attribute("/", "config." + key);
  return s;
}

[[noreturn]] void refuse_damaged(const std::string& path, const std::string& what) {
  refuse(
      "{}: the checkpoint is damaged ({} does not match its checksum); use an earlier checkpoint or best.h5 of the run",
      path, what);
}

/// Names of the arrays in a group that not all checkpoints have.
std::vector<std::string> names_in(const hdf5::File& file, const std::string& group) {
  return file.has(group) ? texts(file, group, "names") : std::vector<std::string>();
}

/// Reads an array; throws InputError if it does not match its checksum.
template <class T>
std::vector<T> checked_array(const hdf5::File& file, const std::string& path) {
  auto values = file.read<T>(path);
  if (fnv1a(values.data(), values.size() * sizeof(T)) != file.attribute<std::uint64_t>(path, "checksum"))
    refuse_damaged(file.path(), path);
  return values;
}

/// Of floats that are computed with: also throws InputError for values that no run has.
void check_floats(const hdf5::File& file, const std::string& path) {
  const bool squares = path.starts_with("/optimizer/v/") || path.ends_with("/running_variance");
  require_valid(checked_array<float>(file, path), path, squares, file.path());
}

/// The paths of all arrays but texts, in the order of the checksum; texts come after them.
std::vector<std::string> array_paths(const hdf5::File& file, const std::vector<std::string>& moments) {
  const auto names = texts(file, "/parameters", "names");
  std::vector<std::string> paths;
  for (const auto& n : names) paths.push_back(parameter_path(n));
  const auto statistics = texts(file, "/parameters", "statistics");
  const std::set<std::string> without_moments(statistics.begin(), statistics.end());
  for (const auto& m : moments)
    for (const auto& n : names)  // not every parameter has every moment
      if (const auto path = moment_path(m, n); !without_moments.contains(n) && file.has(path)) paths.push_back(path);
  for (const auto& n : names_in(file, "/state")) paths.push_back(carried_path(n));
  for (const auto& n : names_in(file, "/samples")) paths.push_back(of_samples_path(n));
  for (const auto& n : names_in(file, "/before")) paths.push_back(before_path(n));
  return paths;
}

/// The state, after a check of everything but the arrays' own bytes.
RunState read_checked_state(const hdf5::File& file) {
  auto state = read_state(file);
  StateChecksum sum(state);
  auto paths = array_paths(file, texts(file, "/optimizer", "moments"));
  for (const auto& name : names_in(file, "/texts")) paths.push_back(text_path(name));
  if (file.has(topology_path)) paths.push_back(topology_path);
  if (file.has(topology_before_path)) paths.push_back(topology_before_path);
  for (const auto& path : paths) sum.add(path, file.info(path).shape, file.attribute<std::uint64_t>(path, "checksum"));
  if (sum.value() != file.attribute<std::uint64_t>("/", "checksum")) refuse_damaged(file.path(), "its run state");
  require_valid(state, file.path());
  const auto read_text = [&](const std::string& path) {
    const auto bytes = checked_array<std::uint8_t>(file, path);
    return std::string(bytes.begin(), bytes.end());
  };
  for (const auto& name : names_in(file, "/texts")) state.texts[name] = read_text(text_path(name));
  const auto read_topology = [&](const char* path) {
    if (!file.has(path)) return std::string();
    auto text = read_text(path);
    try {
      Topology::parse(text);
    } catch (const InputError& e) {
      refuse("{}: {}: {}", file.path(), path, e.what());
    }
    return text;
  };
  state.topology = read_topology(topology_path);
  if (file.has(topology_before_path))
    state.before = std::make_shared<const RunState::NetworkBefore>(
        RunState::NetworkBefore{read_topology(topology_before_path), {}});
  return state;
}

void check_same_network(const hdf5::File& file, const RunState& state, const std::string& network,
                        const Parameters& parameters) {
  const auto names = texts(file, "/parameters", "names");
  const auto what =
      fmt::format("{}: is a checkpoint of another network ({}, expected {})", file.path(), state.network, network);
  std::size_t i = 0;
  for (const auto& p : parameters.all()) {
    if (i >= names.size()) refuse("{}: it has no parameter {} {}", what, p.name, to_string(p.shape));
    const auto found = file.info(parameter_path(names[i])).shape;
    if (names[i] != p.name || found != dims_of(p.shape))
      refuse(
          "{}: its parameter {} is {} {}, where {} {} was expected. Give the options of the network that was trained, "
          "or another checkpoint",
          what, i + 1, names[i], hdf5::to_string(found), p.name, hdf5::to_string(dims_of(p.shape)));
    ++i;
  }
  if (i < names.size()) refuse("{}: it also has the parameter {}", what, names[i]);
}

void check_same_moments(const hdf5::File& file, const RunState& state, const std::vector<std::string>& moments) {
  const auto found = texts(file, "/optimizer", "moments");
  if (found == moments) return;
  const auto list = [](const std::vector<std::string>& v) {
    return v.empty() ? std::string("none") : fmt::format("{}", fmt::join(v, ", "));
  };
  refuse("{}: holds the optimizer state of '{}' ({}), but this run needs {}: resume with the optimizer that wrote it",
         file.path(), state.optimizer, list(found), list(moments));
}

/// Of an array with a shape of its own.
void check_extents(const hdf5::File& file, const std::string& path) {
  const auto found = file.info(path).shape;
  const bool empty = std::find(found.begin(), found.end(), 0) != found.end();
  if (found.empty() || found.size() > max_rank || empty || path.find('\n') != path.npos)
    refuse("{}: {} is {}, expected 1 to {} dimensions with elements", file.path(), path, hdf5::to_string(found),
           max_rank);
}

/// Of moments and recurrent states, before anything is sent: their numbers of elements must be alike on all ranks.
void check_shapes(const hdf5::File& file, const std::vector<std::string>& moments, const Parameters& parameters) {
  const auto what = file.path();
  for (const auto& moment : moments)
    for (const auto& p : parameters.all()) {
      const auto which = static_cast<int>(&moment - moments.data());
      if (p.kind == ParameterKind::statistic || !p.has(which)) continue;
      const auto expected = dims_of(p.shape_of(which));
      if (const auto found = file.info(moment_path(moment, p.name)).shape; found != expected)
        refuse("{}: {} is {}, expected {}", what, moment_path(moment, p.name), hdf5::to_string(found),
               hdf5::to_string(expected));
    }
  for (const auto& name : names_in(file, "/state")) check_extents(file, carried_path(name));
  for (const auto& name : names_in(file, "/before")) check_extents(file, before_path(name));
}

/// `states`: those that the network has, of all ranks.
void check_states(const hdf5::File& file, const std::map<std::string, Shape>& states) {
  for (const auto& [name, shape] : states) {
    const bool there = file.has(carried_path(name));
    const auto found = there ? file.info(carried_path(name)).shape : hdf5::Dims();
    if (!there || found != dims_of(shape))
      refuse("{}: its recurrent state {} is {}, expected {}: resume with the network and batch of that run",
             file.path(), name, there ? hdf5::to_string(found) : "missing", hdf5::to_string(dims_of(shape)));
  }
}

template <class Share>
void share_text(std::string& text, const Share& share) {
  auto length = static_cast<std::int64_t>(text.size());
  share(&length, sizeof length);
  text.resize(static_cast<std::size_t>(length));
  share(text.data(), text.size());
}

template <class Share>
void share_texts(std::map<std::string, std::string>& all, const Share& share) {
  std::vector<std::pair<std::string, std::string>> list(all.begin(), all.end());
  auto count = static_cast<std::int64_t>(list.size());
  share(&count, sizeof count);
  list.resize(static_cast<std::size_t>(count));
  for (auto& [name, text] : list) {
    share_text(name, share);
    share_text(text, share);
  }
  all = {list.begin(), list.end()};
}

/// The arrays of a group with a list of names. `file` null: from the rank that has it.
template <class Share>
std::map<std::string, RunState::Carried> load_arrays(const hdf5::File* file, const std::string& group,
                                                     const Share& share) {
  std::string names;
  if (file)
    for (const auto& n : names_in(*file, group)) names += n + '\n';
  share_text(names, share);
  std::map<std::string, RunState::Carried> all;
  for (std::size_t at = 0; at < names.size(); at = names.find('\n', at) + 1) {
    const auto name = names.substr(at, names.find('\n', at) - at), path = group + "/" + name;
    std::vector<std::int64_t> dims(max_rank, 0);
    if (file)
      for (std::size_t i = 0; const auto d : file->info(path).shape) dims[i++] = static_cast<std::int64_t>(d);
    share(dims.data(), dims.size() * sizeof(std::int64_t));
    auto& a = all[name];
    for (const auto d : dims)
      if (d > 0) a.shape.push_back(d);
    a.values = file ? file->read<float>(path) : std::vector<float>(static_cast<std::size_t>(a.shape.elements()));
    share(a.values.data(), a.values.size() * sizeof(float));
  }
  return all;
}

/// `file` null: from the rank that has it.
template <class Share>
void load_of_samples(const hdf5::File* file, RunState& state, const Share& share) {
  std::string names;
  if (file)
    for (const auto& n : names_in(*file, "/samples")) names += n + '\n';
  share_text(names, share);
  for (std::size_t at = 0; at < names.size(); at = names.find('\n', at) + 1) {
    const auto name = names.substr(at, names.find('\n', at) - at);
    auto& values = state.of_samples[name];
    if (file) values = file->read<float>(of_samples_path(name));
    auto length = static_cast<std::int64_t>(values.size());
    share(&length, sizeof length);
    values.resize(static_cast<std::size_t>(length));
    share(values.data(), values.size() * sizeof(float));
  }
}

/// find_checkpoint(), and the file opened: if it is removed between the two, what is there then.
std::pair<fs::path, hdf5::File> open_found(const fs::path& given, bool best) {
  constexpr int most = 5;
  for (int attempt = 1;; ++attempt) {
    const auto path = find_checkpoint(given, best);
    try {
      return {path, hdf5::File::open(path.string())};
    } catch (const InputError&) {
      if (attempt == most || path == given || fs::exists(path)) throw;
    }
  }
}

}  // namespace

struct CheckpointReader::Impl {
  explicit Impl(Communicator* c) : communicator(c && c->size() > 1 ? c : nullptr) {}

  Communicator* communicator;  ///< null: alone
  fs::path path;
  std::optional<hdf5::File> file;  ///< on the rank that reads
  RunState state;

  bool reads() const { return !communicator || communicator->rank() == 0; }
  void share(void* data, std::size_t bytes) const {
    if (communicator) communicator->broadcast(data, bytes, 0);
  }
  /// Reads the state of what `opened` returns, on rank 0, and sends it to the others.
  void open(const std::function<std::pair<fs::path, hdf5::File>()>& opened);
  void share_state();
};

void CheckpointReader::Impl::share_state() {
  const auto send = [this](void* data, std::size_t bytes) { share(data, bytes); };
  std::string name = path.string(), text = reads() ? to_text(state) : "";
  auto named_texts = state.texts;
  share_text(name, send);
  share_text(text, send);
  share_texts(named_texts, send);
  share_text(state.topology, send);
  std::string before = state.before ? state.before->topology : "";
  share_text(before, send);
  if (reads()) return;
  path = name;
  const std::string topology = std::move(state.topology);
  state = state_from_text(text);
  state.topology = topology;
  if (!before.empty())
    state.before = std::make_shared<const RunState::NetworkBefore>(RunState::NetworkBefore{before, {}});
  state.texts = std::move(named_texts);
}

void CheckpointReader::Impl::open(const std::function<std::pair<fs::path, hdf5::File>()>& opened) {
  on_first_rank(communicator, [&] {
    auto [found, contents] = opened();
    path = found;
    state = read_checked_state(contents);
    file.emplace(std::move(contents));
  });
  share_state();
}

CheckpointReader::CheckpointReader(const fs::path& given, bool best, Communicator* communicator)
    : impl_(std::make_unique<Impl>(communicator)) {
  impl_->open([&] { return open_found(given, best); });
}

CheckpointReader::CheckpointReader(const CheckpointCopy* copy, const fs::path& path, Communicator* communicator)
    : impl_(std::make_unique<Impl>(communicator)) {
  impl_->open([&] {
    auto file = hdf5::File::in_memory(path.string());
    write_contents(file, *copy);
    return std::pair(path, std::move(file));
  });
}

CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

const fs::path& CheckpointReader::path() const { return impl_->path; }
const RunState& CheckpointReader::state() const { return impl_->state; }

void CheckpointReader::check(const std::string& network, const Parameters& parameters,
                             const std::optional<std::vector<std::string>>& wanted,
                             const std::map<std::string, Shape>& states) const {
  const Impl& c = *impl_;
  const auto moments = wanted.value_or(std::vector<std::string>());
  on_first_rank(c.communicator, [&] {
    check_same_network(*c.file, c.state, network, parameters);
    if (wanted) check_same_moments(*c.file, c.state, moments);
    check_shapes(*c.file, moments, parameters);
    check_states(*c.file, states);
    // Read twice rather than kept: the arrays together may be as large as the memory that is left.
    for (const auto& array : array_paths(*c.file, moments)) check_floats(*c.file, array);
  });
}

RunState CheckpointReader::load(const std::string& network, Parameters& parameters,
                                const std::optional<std::vector<std::string>>& wanted) const {
  check(network, parameters, wanted);
  return load_checked(parameters, wanted.value_or(std::vector<std::string>()));
}

RunState CheckpointReader::load_checked(Parameters& parameters, const std::vector<std::string>& moments) const {
  const Impl& c = *impl_;
  const auto share = [&c](void* data, std::size_t bytes) { c.share(data, bytes); };
  const auto load = [&](const std::string& where, Parameter& p, int which) {
    const auto elements = static_cast<std::size_t>(p.shape_of(which).elements());
    auto values = c.file ? c.file->read<float>(where) : std::vector<float>(elements);
    share(values.data(), values.size() * sizeof(float));
    parameters.set(p, values, which);
  };
  for (auto& p : parameters.all()) load(parameter_path(p.name), p, -1);
  for (std::size_t m = 0; m < moments.size(); ++m)
    for (auto& p : parameters.all())
      if (const auto which = static_cast<int>(m); p.kind == ParameterKind::trained && p.has(which))
        load(moment_path(moments[m], p.name), p, which);
  RunState state = c.state;
  const hdf5::File* const file = c.file ? &*c.file : nullptr;
  state.carried = load_arrays(file, "/state", share);
  if (state.before)
    state.before = std::make_shared<const RunState::NetworkBefore>(
        RunState::NetworkBefore{state.before->topology, load_arrays(file, "/before", share)});
  load_of_samples(file, state, share);
  return state;
}

RunState read_run_state(const fs::path& path) { return read_checked_state(hdf5::File::open(path.string())); }

RunState load_checkpoint(const fs::path& path, const std::string& network, Parameters& parameters,
                         const std::optional<std::vector<std::string>>& moments, Communicator* communicator) {
  return CheckpointReader(path, false, communicator).load(network, parameters, moments);
}

}  // namespace keelson
