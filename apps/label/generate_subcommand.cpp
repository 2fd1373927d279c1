#include <fmt/format.h>

#include <algorithm>

#include "apps/common/made_sets.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/diffraction/diffraction.hpp"
#include "apps/label/images/images.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::label {
namespace {

constexpr std::int64_t images_of_file = 500;  // so that the files do not depend on the number of ranks

struct GenerateOptions {
  std::string out;
  std::int64_t pool = 4000, test = 500;
  std::uint64_t seed = 1;
  ShotOptions shot;
};

void write_images(const GenerateOptions& o, const app::MadeFile& made) {
  const std::int64_t n = made.end - made.begin, size = o.shot.detector.size, pixels = size * size;
  std::vector<float> x(static_cast<std::size_t>(n * pixels)), ice(static_cast<std::size_t>(n)), cold(ice.size());
  std::vector<std::int32_t> y(ice.size()), droplets(ice.size());
  in_threads(n, [&](std::int64_t i) {
    const Shot shot = make_shot(o.shot, o.seed, made.set, made.begin + i);
    std::ranges::copy(shot.counts, x.begin() + i * pixels);
    y[static_cast<std::size_t>(i)] = shot.droplets == 0 ? 2 : shot.ice ? 1 : 0;
    droplets[static_cast<std::size_t>(i)] = shot.droplets;
    ice[static_cast<std::size_t>(i)] = static_cast<float>(shot.ice_part);
    cold[static_cast<std::size_t>(i)] = static_cast<float>(shot.supercooling);
  });
  AtomicFile file(made.folder / fmt::format("images-{:06}.h5", made.number), Target::hdf5);
  auto h5 = hdf5::File::create(file.temporary().string());
  h5.write("x", x.data(), {n, size, size});
  h5.write("y", y.data(), {n});
  h5.write("ice_part", ice.data(), {n});
  h5.write("supercooling", cold.data(), {n});
  h5.write("droplets", droplets.data(), {n});
  std::vector<std::string> classes{"water", "ice"};
  if (o.shot.empty > 0) classes.emplace_back("empty");
  h5.set_attribute("y", "classes", classes);
  h5.set_attribute("x", "units", "photons");
  h5.close();
  file.commit();
}

ExitCode generate(const GenerateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets pool/ and test/");
  if (o.shot.empty + o.shot.two_droplets > 1)
    refuse("--empty {:g} and --two-droplets {:g} are more than all images", o.shot.empty, o.shot.two_droplets);
  const auto files = app::make_sets(o.out, {{"pool", o.pool}, {"test", o.test}}, images_of_file, world,
                                    [&](const app::MadeFile& file) { write_images(o, file); });
  if (world.rank() == 0)
    fmt::print("{}: {} of {} x {} pixels in {}\n", o.out, counted(o.pool + o.test, "image"), o.shot.detector.size,
               o.shot.detector.size, counted(files, "file"));
  return ExitCode::done;
}

}  // namespace

void define_generate(app::CommandLine& line) {
  auto o = std::make_shared<GenerateOptions>();
  auto& v = line.subcommand("generate",
                            "Make X-ray diffraction images of water and ice, with what they show in /y; parallel over "
                            "ranks",
                            [o](app::Launch& launch) { return generate(*o, launch); });
  v.option_without_default("--out", o->out, "Folder that gets pool/ and test/", "DIR").differs_between_ranks();
  v.option("--pool", o->pool, "Images to be labelled", "N").non_negative();
  v.option("--test", o->test, "Images to judge by", "N").non_negative();
  v.option("--size", o->shot.detector.size, "Pixels of an edge", "N").between(16, 4096);
  v.option("--ice", o->shot.ice, "Part of the images with ice", "PART").between(0, 1);
  v.option("--cubic", o->shot.cubic, "Part of the images with ice whose ice is cubic", "PART").between(0, 1);
  v.option("--empty", o->shot.empty, "Part of the images that show no droplet, class 2", "PART").between(0, 1);
  v.option("--two-droplets", o->shot.two_droplets, "Part of the images that show two droplets; ice if one is frozen",
           "PART")
      .between(0, 1);
  v.option("--photons", o->shot.photons,
           "Median of the photons at the water's peak, per pixel of a detector of 128 x 128", "N")
      .positive();
  v.option("--least-ice", o->shot.least_ice,
           "Least part of the photons that ice scatters, in an image with ice; less makes images that nobody can tell "
           "apart",
           "PART")
      .between(0, 0.3);
  v.option("--seed", o->seed, "Image i of a set depends only on seed, set and i", "N");
}

}  // namespace keelson::label
