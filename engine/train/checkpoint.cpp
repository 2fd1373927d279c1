#include "engine/train/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "engine/base/atomic_file.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/utc_time.hpp"
#include "engine/data/hdf5.hpp"
#include "engine/train/state_text.hpp"

namespace keelson {
namespace fs = std::filesystem;
namespace {

std::string parameter_path(const std::string& name) { return "/parameters/" + name; }
std::string moment_path(const std::string& moment, const std::string& name) {
  return "/optimizer/" + moment + "/" + name;
}

std::string carried_path(const std::string& name) { return "/state/" + name; }
std::string text_path(const std::string& name) { return "/texts/" + name; }

hdf5::Dims dims_of(const Shape& s) { return {s.begin(), s.end()}; }

/// Checksum over the whole state: its text, then each array's path, shape and own checksum.
class StateChecksum {
 public:
  explicit StateChecksum(const RunState& s) { add(to_text(s)); }
  void add(const std::string& path, const hdf5::Dims& shape, std::uint64_t checksum) {
    add(fmt::format("{} {} {:016x}\n", path, hdf5::to_string(shape), checksum));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add(const std::string& text) { hash_ = fnv1a(text.data(), text.size(), hash_); }
  std::uint64_t hash_ = fnv1a(nullptr, 0);
};

/// An empty list has no attribute.
template <class T>
void set_list(hdf5::File& file, const std::string& object, const std::string& name, const std::vector<T>& list) {
  if (!list.empty()) file.set_attribute(object, name, list);
}

std::vector<std::string> texts(const hdf5::File& file, const std::string& object, const std::string& name) {
  return file.has_attribute(object, name) ? file.texts_attribute(object, name) : std::vector<std::string>();
}

template <class T>
void write_field(hdf5::File& f, const char* name, const T& v) {
  f.set_attribute("/", name, v);
}
void write_field(hdf5::File& f, const char* name, const std::vector<double>& v) { set_list(f, "/", name, v); }

void write_state(hdf5::File& file, const RunState& s) {
  file.set_attribute("/", "format", std::string("keelson checkpoint"));
  file.set_attribute("/", "format_version", checkpoint_format);
  visit_fields(s, [&](const char* name, const auto& field) { write_field(file, name, field); });
  std::vector<std::string> keys;
  for (const auto& [key, value] : s.config) {
    file.set_attribute("/", "config." + key, value);
    keys.push_back(key);
  }
  set_list(file, "/", "config_keys", keys);
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
  visit_fields(s, [&](const char* name, auto& field) { read_field(file, name, field); });
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

/// Reads an array; throws InputError where it does not match its checksum.
template <class T>
std::vector<T> checked_array(const hdf5::File& file, const std::string& path) {
  auto values = file.read<T>(path);
  if (fnv1a(values.data(), values.size() * sizeof(T)) != file.attribute<std::uint64_t>(path, "checksum"))
    refuse_damaged(file.path(), path);
  return values;
}

/// The paths of all arrays but texts, in the order of the checksum; texts come after them.
std::vector<std::string> array_paths(const hdf5::File& file, const std::vector<std::string>& moments) {
  const auto names = texts(file, "/parameters", "names");
  std::vector<std::string> paths;
  for (const auto& n : names) paths.push_back(parameter_path(n));
  for (const auto& m : moments)
    for (const auto& n : names) paths.push_back(moment_path(m, n));
  for (const auto& n : names_in(file, "/state")) paths.push_back(carried_path(n));
  return paths;
}

/// The state, after a check of everything but the arrays' own bytes.
RunState read_checked_state(const hdf5::File& file) {
  auto state = read_state(file);
  StateChecksum sum(state);
  auto paths = array_paths(file, texts(file, "/optimizer", "moments"));
  for (const auto& name : names_in(file, "/texts")) paths.push_back(text_path(name));
  for (const auto& path : paths) sum.add(path, file.info(path).shape, file.attribute<std::uint64_t>(path, "checksum"));
  if (sum.value() != file.attribute<std::uint64_t>("/", "checksum")) refuse_damaged(file.path(), "its run state");
  for (const auto& name : names_in(file, "/texts")) {
    const auto bytes = checked_array<std::uint8_t>(file, text_path(name));
    state.texts[name].assign(bytes.begin(), bytes.end());
  }
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

}  // namespace

std::vector<std::string> moment_names(const Optimizer& optimizer) {
  switch (optimizer.moments()) {
    case 0:
      return {};
    case 1:
      return {"momentum"};
    default:
      return {"m", "v"};
  }
}

void write_checkpoint(const fs::path& path, const RunState& given, const Parameters& parameters,
                      const std::vector<std::string>& moments) {
  auto state = given;
  state.version = KEELSON_VERSION;
  state.created = utc_now();
  StateChecksum sum(state);
  std::vector<std::string> names;
  for (const auto& p : parameters.all()) names.push_back(p.name);
  AtomicFile atomic(path);
  try {
    auto file = hdf5::File::create(atomic.temporary().string());
    const auto write_bytes = [&](const std::string& where, const hdf5::Dims& dims, const auto* values,
                                 std::size_t bytes) {
      const auto checksum = fnv1a(values, bytes);
      file.write(where, values, dims);
      file.set_attribute(where, "checksum", checksum);
      sum.add(where, dims, checksum);
    };
    const auto write = [&](const std::string& where, const Shape& shape, const std::vector<float>& values) {
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        fail("{} holds a value that is not finite after step {}", where, state.step);
      write_bytes(where, dims_of(shape), values.data(), values.size() * sizeof(float));
    };
    for (const auto& p : parameters.all()) write(parameter_path(p.name), p.shape, parameters.get(p));
    for (std::size_t m = 0; m < moments.size(); ++m)
      for (const auto& p : parameters.all())
        write(moment_path(moments[m], p.name), p.shape, parameters.get(p, static_cast<int>(m)));
    std::vector<std::string> carried;
    for (const auto& [name, c] : state.carried) {
      write(carried_path(name), c.shape, c.values);
      carried.push_back(name);
    }
    if (!carried.empty()) set_list(file, "/state", "names", carried);
    std::vector<std::string> text_names;
    for (const auto& [name, text] : state.texts) {
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      write_bytes(text_path(name), {static_cast<std::int64_t>(bytes.size())}, bytes.data(), bytes.size());
      text_names.push_back(name);
    }
    if (!text_names.empty()) set_list(file, "/texts", "names", text_names);
    file.make_group("/optimizer");
    set_list(file, "/parameters", "names", names);
    set_list(file, "/optimizer", "moments", moments);
    write_state(file, state);
    file.set_attribute("/", "checksum", sum.value());
    file.close();
  } catch (const Error& e) {
    fail("cannot write the checkpoint {}: {}{}; earlier checkpoints are untouched", path.string(), e.what(),
         free_space(path.parent_path()));
  }
  atomic.commit();
}

RunState read_run_state(const fs::path& path) { return read_checked_state(hdf5::File::open(path.string())); }

namespace {

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

/// `file` null: from the rank that has it.
template <class Share>
void load_carried(const hdf5::File* file, RunState& state, const Share& share) {
  std::string names;
  if (file)
    for (const auto& n : names_in(*file, "/state")) names += n + '\n';
  share_text(names, share);
  for (std::size_t at = 0; at < names.size(); at = names.find('\n', at) + 1) {
    const auto name = names.substr(at, names.find('\n', at) - at);
    std::vector<std::int64_t> dims(max_rank, 0);
    if (file)
      for (std::size_t i = 0; const auto d : file->info(carried_path(name)).shape)
        dims[i++] = static_cast<std::int64_t>(d);
    share(dims.data(), dims.size() * sizeof(std::int64_t));
    auto& c = state.carried[name];
    for (const auto d : dims)
      if (d > 0) c.shape.push_back(d);
    c.values =
        file ? file->read<float>(carried_path(name)) : std::vector<float>(static_cast<std::size_t>(c.shape.elements()));
    share(c.values.data(), c.values.size() * sizeof(float));
  }
}

}  // namespace

RunState load_checkpoint(const fs::path& path, const std::string& network, Parameters& parameters,
                         const std::vector<std::string>& moments, Communicator* communicator) {
  const bool alone = !communicator || communicator->size() == 1;
  const bool reads = alone || communicator->rank() == 0;
  const auto share = [&](void* data, std::size_t bytes) {
    if (!alone) communicator->broadcast(data, bytes, 0);
  };
  std::optional<hdf5::File> file;
  std::string text;
  std::map<std::string, std::string> named_texts;
  if (reads) {
    file.emplace(hdf5::File::open(path.string()));
    auto state = read_checked_state(*file);
    check_same_network(*file, state, network, parameters);
    if (!moments.empty()) check_same_moments(*file, state, moments);
    // Read twice rather than kept: the arrays together may be as large as the memory that is left.
    for (const auto& array : array_paths(*file, moments)) checked_array<float>(*file, array);
    text = to_text(state);
    named_texts = std::move(state.texts);
  }
  share_text(text, share);
  share_texts(named_texts, share);

  const auto load = [&](const std::string& where, Parameter& p, int which) {
    auto values = reads ? file->read<float>(where) : std::vector<float>(static_cast<std::size_t>(p.shape.elements()));
    share(values.data(), values.size() * sizeof(float));
    parameters.set(p, values, which);
  };
  for (auto& p : parameters.all()) load(parameter_path(p.name), p, -1);
  for (std::size_t m = 0; m < moments.size(); ++m)
    for (auto& p : parameters.all()) load(moment_path(moments[m], p.name), p, static_cast<int>(m));
  auto state = state_from_text(text);
  state.texts = std::move(named_texts);
  load_carried(reads ? &*file : nullptr, state, share);
  return state;
}

}  // namespace keelson
