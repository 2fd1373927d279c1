#include "apps/common/rechunk_subcommand.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>

#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/hdf5/rechunk.hpp"

namespace keelson::app {
namespace {
namespace fs = std::filesystem;

using FindArrays = std::function<std::vector<SampleArray>(const hdf5::File&)>;

struct RechunkOptions {
  std::string data, out, chunk = "contiguous";
  int gzip = 0;
  bool shuffle = false;
};

/// Thrown between boxes when the user or the batch system wants the program to end.
struct RechunkInterrupted {};

/// All HDF5 files of a folder, with all parts of a data set (train/, validation/); else as find_files().
std::vector<std::string> files_to_copy(const std::string& path) {
  if (!fs::is_directory(path)) return find_hdf5_files(path);
  const auto form = hdf5_form();
  std::vector<std::string> found;
  for (auto entry = fs::recursive_directory_iterator(path); entry != fs::recursive_directory_iterator(); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory() && hidden) entry.disable_recursion_pending();
    if (entry->is_regular_file() && !hidden && form.has_name(entry->path().string()))
      found.push_back(entry->path().string());
  }
  if (found.empty()) refuse("{}: holds no HDF5 files. Expected names that {}", path, form.ending);
  std::ranges::sort(found);
  return found;
}

/// "128,128,128,4" as numbers; "contiguous" and "sample" as none.
hdf5::Dims numbers_of_chunk(const std::string& text) {
  hdf5::Dims numbers;
  if (text == "contiguous" || text == "sample") return numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    std::int64_t n = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, n);
    if (error != std::errc() || rest != text.data() + end || n <= 0)
      refuse("--chunk {}: expected contiguous, sample, or numbers above 0 such as 128,128,128,4", text);
    numbers.push_back(n);
    begin = end + 1;
  }
  return numbers;
}

/// Copies the files of a rank.
class RechunkJob {
 public:
  RechunkJob(const RechunkOptions& o, const FindArrays& find, Communicator& world)
      : options_(o),
        find_(find),
        world_(world),
        list_(o.data, &world, files_to_copy),
        numbers_(numbers_of_chunk(o.chunk)) {
    on_each_rank(&world, [&] {
      require_other_folder();
      if (world.rank() == 0) require_samples();
    });
  }

  void run() {
    Progress progress("file", world_.size());
    const std::int64_t mine = (list_.size() - world_.rank() + world_.size() - 1) / world_.size();
    for (std::int64_t n = 0; n < mine; ++n) {
      copy(n * world_.size() + world_.rank());
      if (world_.rank() == 0) progress.show(n + 1, mine, fmt::format(", {:.2f} GB/s", rate(bytes_)));
    }
  }

  /// Prints the result on rank 0. Collective.
  void print() {
    std::int64_t all[] = {made_, there_, plain_, bytes_};
    world_.allreduce(all, 4, Reduction::sum);
    if (world_.rank() != 0) return;
    fmt::print("{}: {} made ({:.3f} GB of samples, {:.2f} GB/s), {} there already", options_.out,
               counted(all[0], "file"), static_cast<double>(all[3]) * 1e-9, rate(all[3]), all[1]);
    fmt::print("{}\n", all[2] == 0 ? "" : fmt::format(", {} without samples copied as they are", all[2]));
  }

 private:
  double rate(std::int64_t bytes) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    return static_cast<double>(bytes) * 1e-9 / std::max(seconds.count(), 1e-9);
  }

  /// The copies must not be among the originals.
  void require_other_folder() const {
    const auto in = fs::weakly_canonical(fs::absolute(list_.folder().empty() ? "." : list_.folder())),
               out = fs::weakly_canonical(fs::absolute(options_.out));
    const bool folder = fs::is_directory(options_.data);
    if (out == in || (folder && std::mismatch(in.begin(), in.end(), out.begin(), out.end()).first == in.end()))
      refuse("--out {} lies in the folder of the data. Expected another folder: files are copied, never replaced",
             options_.out);
  }

  void require_samples() const {
    for (std::int64_t i = 0; i < list_.size(); ++i)
      if (!find_(hdf5::File::open(list_.path(i), list_.folder())).empty()) return;
    refuse("{}: none of {} holds samples of this program; docs/file-formats.md says which arrays it reads",
           options_.data, counted(list_.size(), "file"));
  }

  std::vector<hdf5::NewLayout> layouts(const std::vector<SampleArray>& arrays, const std::string& path) const {
    const bool in_samples = options_.chunk == "sample" || (numbers_.empty() && (options_.gzip > 0 || options_.shuffle));
    std::vector<hdf5::NewLayout> all;
    bool fits = numbers_.empty();
    for (const auto& a : arrays) {
      auto chunk = in_samples || !numbers_.empty() ? a.sample : hdf5::Dims();
      if (!numbers_.empty() && numbers_.size() + (a.many_samples ? 1 : 0) == a.sample.size()) {
        std::copy(numbers_.begin(), numbers_.end(), chunk.end() - std::ssize(numbers_));
        fits = true;
      }
      all.push_back({a.name, chunk});
    }
    if (!fits)
      refuse("--chunk {}: {} has samples of {}. Expected {} numbers", options_.chunk, path,
             hdf5::to_string(arrays[0].sample), arrays[0].sample.size() - (arrays[0].many_samples ? 1 : 0));
    return all;
  }

  void copy(std::int64_t index) {
    const std::string source = list_.path(index);
    const fs::path target = fs::path(options_.out) / list_.name(index);
    protect_input(source);
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    if (!fs::is_directory(target.parent_path(), error))
      refuse("--out {}: cannot make the folder {}; choose one that can be written", options_.out,
             target.parent_path().string());
    const auto arrays = find_(hdf5::File::open(source, list_.folder()));
    const auto wanted = arrays.empty() ? std::vector<hdf5::NewLayout>() : layouts(arrays, source);
    const hdf5::NewFilters filters{options_.gzip, options_.shuffle};
    if (fs::exists(target)) {
      if (!hdf5::is_rechunked(source, target.string(), wanted, filters))
        refuse(
            "{}: exists, with other chunks, filters or shapes than this command gives. Expected none or the same; "
            "remove it, or choose another --out",
            target.string());
      if (fs::last_write_time(target) < fs::last_write_time(source))
        refuse("{}: is older than its original {}. Remove it, or choose another --out", target.string(), source);
      ++there_;
      return;
    }
    AtomicFile file(target, Target::hdf5);
    if (arrays.empty()) {
      if (!fs::copy_file(source, file.temporary(), error))
        fail("{}: cannot be copied to {}: {}", source, target.string(), error.message());
      ++plain_;
    } else {
      hdf5::rechunk(source, file.temporary().string(), wanted, filters, [&](std::int64_t bytes) {
        bytes_ += bytes;
        if (Interrupt::requested()) throw RechunkInterrupted();
      });
      ++made_;
    }
    file.commit();
  }

  const RechunkOptions& options_;
  const FindArrays& find_;
  Communicator& world_;
  FileList list_;
  hdf5::Dims numbers_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t made_ = 0, there_ = 0, plain_ = 0, bytes_ = 0;
};

ExitCode run_rechunk(const RechunkOptions& o, const FindArrays& find, Launch& launch) {
  auto& world = launch.world;
  if (o.data.empty()) refuse("give --data: HDF5 files, as a file, folder or pattern");
  if (o.out.empty()) refuse("give --out: the folder of the copies");
  RechunkJob job(o, find, world);
  Interrupt::install();
  std::int64_t interrupted = 0;
  on_each_rank(&world, [&] {
    try {
      job.run();
    } catch (const RechunkInterrupted&) {
      interrupted = 1;  // complete files stay; the same command makes the others
    }
  });
  Interrupt::uninstall();
  world.allreduce(&interrupted, 1, Reduction::max);
  if (interrupted != 0) {
    if (world.rank() == 0) fmt::print("interrupted; the same command makes the missing files\n");
    return ExitCode::interrupted;
  }
  job.print();
  return ExitCode::done;
}

}  // namespace

void define_rechunk_subcommand(CommandLine& line, const std::string& what, const FindArrays& find) {
  auto o = std::make_shared<RechunkOptions>();
  auto& v = line.subcommand("rechunk",
                            "Copy HDF5 files of " + what +
                                " and store their samples in a form that is read faster; the ranks share the files",
                            [o, find](Launch& launch) { return run_rechunk(*o, find, launch); });
  v.option_without_default("--data", o->data,
                           "Files to copy: a folder with all folders in it, a file or a pattern in quotes", "PATH")
      .differs_between_ranks();
  v.option_without_default("--out", o->out,
                           "Folder for the copies, which have the same names; complete files in it are kept", "DIR")
      .differs_between_ranks();
  v.option("--chunk", o->chunk,
           "How samples are stored: contiguous, which is read fastest; sample, in chunks of one sample; or the shape "
           "of a chunk, in numbers separated by commas",
           "SHAPE");
  v.option("--gzip", o->gzip,
           "Compress the chunks: level 1 to 9, of which 1 is the fastest; 0: do not. Contiguous samples cannot be "
           "compressed: chunks are then of one sample",
           "LEVEL")
      .between(0, 9);
  v.flag("--shuffle", o->shuffle, "Store bytes of equal place side by side, after which integers compress better");
}

}  // namespace keelson::app
